// steps.mjs STARTS HINT ATTEMPT STEPS STEP_S END CHECKPOINT
import { spawn } from "node:child_process";
import { appendFileSync, mkdirSync, readFileSync, readSync, writeFileSync, writeSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

const [starts, hint, attempt, steps, stepS, end, from] = process.argv.slice(2);
const say = (line) => writeSync(3, `${line}\n`);
process.on("SIGTERM", () => {});
const uptime = readFileSync("/proc/uptime", "utf8").split(" ")[0];
appendFileSync(starts, `${hint}/${attempt} ${process.pid} ${uptime}\n`);

if (end === "brood") {
  spawn("sleep", ["600"], { detached: true });
  spawn("sleep", ["600"]);
  await setTimeout(600_000);
}

function checkpoint() {
  say("checkpoint");
  const answer = Buffer.alloc(100);
  if (answer.toString("utf8", 0, readSync(4, answer)).trim() === "stop") process.exit(0);
}

let done = from ? Number(readFileSync(`${from}/done`, "utf8")) : 0;
const began = done;
mkdirSync("checkpoint", { recursive: true });
while (done < Number(steps)) {
  await setTimeout(Number(stepS) * 1000);
  done += 1;
  say(`progress ${done / Number(steps)} step ${done}`);
  writeFileSync("checkpoint/done", String(done));
  checkpoint();
}

console.log("last words");
if (end.startsWith("line-")) say(`error ${end.slice(5)} [as-asked] it was asked to`);
if (end.startsWith("exit-")) process.exit(Number(end.slice(5)));
if (end === "signal") process.kill(process.pid, "SIGSEGV");
if (end === "signal") await setTimeout(600_000);
writeFileSync("out/count.txt", String(done));
say(`value ${JSON.stringify({ began, done })}`);

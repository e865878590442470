// words.mjs: counts the words of a text. Reads from a file what it is to do.
import { readFileSync, writeFileSync, writeSync } from "node:fs";

const say = (line) => writeSync(Number(process.env.PLANRUN_PROGRESS_FD), `${line}\n`);
const { inputs, params } = JSON.parse(readFileSync(process.env.PLANRUN_INPUTS, "utf8"));

const words = readFileSync(inputs.text, "utf8").split(/\s+/).filter(Boolean);
if (words.length === 0) {
  say("error permanent [empty] there is nothing to count");
  process.exit(1);
}
const counts = {};
for (const [n, word] of words.entries()) {
  counts[word] = (counts[word] ?? 0) + 1;
  if (n % 1000 === 0) say(`progress ${n}/${words.length} word ${n}`);
}
writeFileSync("out/counts.json", JSON.stringify(counts, null, params.indent ?? 1));
say(`value ${JSON.stringify({ words: words.length })}`);

// Shows one clip: what the server last said of its preview, and nothing that it did not say.

const ENDED = ["finished", "failed", "canceled", "gone"];
const page = location.pathname;
const part = (id) => document.getElementById(id);
let listening;

part("cancel").addEventListener("click", () => call("DELETE"));
part("again").addEventListener("click", () => call("POST"));
part("share").addEventListener("click", copy);
listen();

// The browser asks again by itself if the server goes away; the first thing that it hears then is how things are now.
function listen() {
  listening?.close();
  listening = new EventSource(`${page}/progress`);
  listening.addEventListener("message", (event) => show(JSON.parse(event.data)));
  listening.addEventListener("error", () => {
    complain("The server does not answer. The work goes on; this page tries again.");
    if (listening.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  });
}

async function call(method) {
  try {
    const answer = await fetch(`${page}/preview`, { method });
    const said = await answer.json();
    if (!answer.ok) return complain(said.error);
    show(said);
    listen();
  } catch {
    complain("The server does not answer. Try again.");
  }
}

function show(said) {
  const ended = ENDED.includes(said.state);
  const finished = said.state === "finished";
  if (ended) listening.close();
  part("problem").hidden = true;
  document.title = ended ? said.title : `${said.percent} % · ${said.title}`;
  part("title").textContent = said.title;
  part("card").dataset.state = said.state;
  part("words").textContent = said.words;
  part("left").textContent = said.left_s == null ? "" : `${inWords(said.left_s)} left`;
  part("percent").textContent = `${said.percent} %`;
  part("bar").value = said.percent ?? 0;
  part("bar").hidden = ended;
  part("exactly").textContent = said.details ?? "";
  part("details").hidden = !said.details;
  part("cancel").hidden = ended || !said.is_owners;
  part("again").hidden = !said.may_ask_again || !said.is_owners;
  part("share").hidden = !said.is_owners || (ended && !finished);
  part("share").dataset.address = new URL(said.shared, location).href;
  part("screen").hidden = ended;
  play(finished);
}

function play(ready) {
  part("video").hidden = part("save").hidden = !ready;
  if (!ready || part("video").getAttribute("src")) return;
  part("video").src = part("save").href = `${page}/preview.mp4`;
}

async function copy() {
  const address = part("share").dataset.address;
  try {
    await navigator.clipboard.writeText(address);
    part("share").textContent = "Copied";
  } catch {
    part("share").textContent = address; // no clipboard without https: at least it can be seen
  }
}

function complain(text) {
  part("problem").textContent = text;
  part("problem").hidden = false;
}

function inWords(seconds) {
  if (seconds < 90) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}

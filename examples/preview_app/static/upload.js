// Sends one file as it is, shows how far it got, and goes on to the page of the clip.

const part = (id) => document.getElementById(id);
const { bytes_max } = await (await fetch("/limits")).json();

part("file").addEventListener("change", () => send(part("file").files[0]));
part("drop").addEventListener("dragover", (event) => event.preventDefault());
part("drop").addEventListener("drop", (event) => {
  event.preventDefault();
  send(event.dataTransfer.files[0]);
});
part("drop").classList.add("ready");

function send(file) {
  if (!file) return;
  if (file.size > bytes_max) return refuse(`The file is larger than ${Math.floor(bytes_max / 2 ** 20)} MiB. Send a shorter clip.`);
  const request = new XMLHttpRequest(); // fetch cannot say how much has been sent
  request.open("POST", `/clips?title=${encodeURIComponent(file.name)}`);
  request.responseType = "json";
  request.upload.addEventListener("progress", ({ loaded, total }) => show(file, Math.floor((100 * loaded) / total)));
  request.addEventListener("load", () => {
    if (request.status === 201) location.assign(request.response.page);
    else refuse(request.response?.error ?? `The server answered with ${request.status}. Try again later.`);
  });
  request.addEventListener("error", () => refuse("The connection was lost. Nothing was kept: try again."));
  show(file, 0);
  request.send(file);
}

function show(file, percent) {
  part("problem").hidden = true;
  part("file").disabled = true;
  part("prompt").textContent = file.name;
  part("hint").textContent = percent < 100 ? `${percent} % sent` : "one moment …";
  part("sent").value = percent;
  part("sent").hidden = false;
}

function refuse(text) {
  part("problem").textContent = text;
  part("problem").hidden = false;
  part("file").disabled = false;
  part("file").value = "";
  part("sent").hidden = true;
  part("prompt").textContent = "Choose a video";
  part("hint").textContent = "or drop it here";
}

// Calls to the service. A key is asked for once and kept for this tab only.

const KEY = "alu-key";

export class Problem extends Error {}

export async function ask(path, body = undefined, asked = false) {
  const headers = { Accept: "application/json" };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Problem("The service does not answer. Is it still running?");
  }
  if (response.status === 401 && !asked) {
    const given = window.prompt("This service asks for a key.");
    if (given) {
      sessionStorage.setItem(KEY, given);
      return ask(path, body, true);
    }
  }
  const plain = await response.json().catch(() => ({}));
  if (!response.ok) {
    if (response.status === 401) sessionStorage.removeItem(KEY);
    throw new Problem(plain.detail || plain.title || `The service answered ${response.status}.`);
  }
  return plain;
}

export const asUrl = (picture) => (picture.startsWith("data:") ? picture : `data:image/png;base64,${picture}`);

function opened(url, otherwise) {
  return new Promise((done, failed) => {
    const image = new Image();
    image.onload = () => done(image);
    image.onerror = () => failed(new Problem(otherwise));
    image.src = url;
  });
}

// A file as a PNG in base64 of the size that the defence reads: its middle, scaled. Browsers turn it upright by themselves.
export async function fitted(file, [, height, width]) {
  const url = URL.createObjectURL(file);
  try {
    const image = await opened(url, `${file.name || "This"} cannot be read as a picture.`);
    const scale = Math.max(width / image.naturalWidth, height / image.naturalHeight);
    const [wide, tall] = [image.naturalWidth * scale, image.naturalHeight * scale];
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.fillRect(0, 0, width, height);
    context.drawImage(image, (width - wide) / 2, (height - tall) / 2, wide, tall);
    return canvas.toDataURL("image/png").split(",", 2)[1];
  } finally {
    URL.revokeObjectURL(url);
  }
}

export async function pixels(url) {
  const image = await opened(url, "The picture that came back cannot be shown.");
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

export function paint(canvas, data) {
  [canvas.width, canvas.height] = [data.width, data.height];
  canvas.getContext("2d").putImageData(data, 0, 0);
}

// Gray where nothing changed; brighter and darker where a pixel did.
export function difference(before, after, strength = 8) {
  const made = new ImageData(before.width, before.height);
  for (let at = 0; at < made.data.length; at++) {
    made.data[at] = at % 4 === 3 ? 255 : 127 + strength * (after.data[at] - before.data[at]);
  }
  return made;
}

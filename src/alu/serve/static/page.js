// The page: which part is shown, which picture is chosen, and the link that brings both back.

import { bars, curve, histogram } from "./charts.js";
import { ask, asUrl, difference, fitted, paint, pixels, Problem } from "./service.js";

const $ = (id) => document.getElementById(id);
const PARTS = ["try", "attack", "monitor"];
const LINKED = 6000; // a picture of at most so many characters is part of its link
// model: what is served; playground: which attacks can be tried; chosen: {picture, label, sample}, a PNG in base64
const state = { model: null, playground: null, part: "try", chosen: null, film: null, playing: 0 };

const className = (label) => (label < 0 ? "no answer" : (state.model.classes[label] ?? String(label)));

async function guarded(work) {
  try {
    $("problem").hidden = true;
    return await work();
  } catch (error) {
    $("problem").textContent = error instanceof Problem ? error.message : `The page failed: ${error.message}`;
    $("problem").hidden = false;
    return undefined;
  }
}

function link(part, more = {}) {
  const words = new URLSearchParams(more);
  if (state.chosen?.sample !== undefined) words.set("sample", state.chosen.sample);
  else if (state.chosen && state.chosen.picture.length <= LINKED) words.set("picture", state.chosen.picture);
  const text = words.toString();
  return text ? `#${part}?${text}` : `#${part}`;
}

function showPart(part) {
  state.part = part;
  for (const one of PARTS) {
    const [tab, selected] = [$(`tab-${one}`), one === part];
    tab.setAttribute("aria-selected", selected);
    tab.tabIndex = selected ? 0 : -1;
    $(one).hidden = !selected;
  }
  $("picking").hidden = part === "monitor";
  if (part === "monitor") guarded(showMonitor);
}

function leadTo(part) {
  showPart(part);
  history.replaceState(null, "", link(part));
  if (part === "try" && state.chosen) guarded(decide);
}

// Choosing a picture

async function fillSamples() {
  const { samples } = await ask("/v1/samples");
  for (const sample of samples) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.sample = sample.number;
    button.setAttribute("aria-pressed", "false");
    const image = document.createElement("img");
    image.src = asUrl(sample.picture);
    image.alt = sample.class;
    button.title = sample.class;
    button.append(image);
    button.onclick = () => choose({ picture: sample.picture, sample: sample.number, label: sample.label });
    $("samples").append(button);
  }
}

function choose(chosen, then = true) {
  state.chosen = chosen;
  for (const button of $("samples").children) {
    button.setAttribute("aria-pressed", String(chosen.sample !== undefined && button.dataset.sample === String(chosen.sample)));
  }
  $("attack-shown").hidden = true;
  stop();
  if (chosen.label !== undefined) $("attack-label").value = chosen.label;
  if (then) {
    history.replaceState(null, "", link(state.part));
    guarded(decide);
  }
}

async function take(file) {
  if (!file) return;
  await guarded(async () => {
    choose({ picture: await fitted(file, state.model.shape) });
  });
}

// Try

function scoreChart(decision) {
  const clean = state.model.clean_scores;
  if (!clean || decision.score === null) return document.createTextNode("This defence has no scores of clean pictures to compare with.");
  const [ends, threshold] = [[clean.edges[0], clean.edges.at(-1)], state.model.settings.threshold];
  const marks = [{ at: decision.score, kind: "mark", name: "this picture" }];
  if (threshold !== null) marks.unshift({ at: threshold, kind: "limit", name: "flagged beyond" });
  return histogram(clean.counts, ends, marks, `Score ${decision.score.toFixed(2)} among clean pictures`);
}

function logitRows(before, after) {
  const order = before.map((_, label) => label);
  const high = (label) => Math.max(before[label], after ? after[label] : -Infinity);
  const top = order.sort((a, b) => high(b) - high(a)).slice(0, 10).sort((a, b) => a - b);
  return top.map((label) => ({
    name: className(label),
    values: after ? [["bar-before", before[label]], ["bar-after", after[label]]] : [["bar-after", before[label]]],
  }));
}

function saying(decision) {
  const answer = decision.accepted ? className(decision.label) : "No answer";
  const unusual = decision.p_value === null ? "" : `p = ${decision.p_value.toPrecision(2)}: ${percent(decision.p_value)} of clean pictures look at least as unusual.`;
  const found = decision.flagged ? "Flagged" : "Not flagged";
  return [`${answer}.`, `${found}; state: ${decision.state}. ${unusual}`];
}

const percent = (share) => `${(100 * share).toPrecision(share < 0.1 ? 1 : 2)} %`;

function say(target, [first, more], kind) {
  target.textContent = first;
  const small = document.createElement("small");
  small.textContent = more;
  target.append(small);
  target.className = `answer ${kind}`;
}

async function decide() {
  const asked = state.chosen;
  const wanted = state.model.purified ? "logits=true&purified=true" : "logits=true";
  const { pictures } = await ask(`/v1/decide?${wanted}`, { pictures: [asked.picture] });
  if (asked !== state.chosen) return; // another picture was chosen meanwhile
  const [decision] = pictures;
  if (asked.label === undefined) $("attack-label").value = decision.label;
  say($("try-answer"), saying(decision), decision.flagged || !decision.accepted ? "bad" : "good");
  const both = [asked.picture, decision.purified ?? asked.picture];
  const [seen, purified] = await Promise.all(both.map((one) => pixels(asUrl(one))));
  paint($("try-picture"), seen);
  paint($("try-purified"), purified);
  paint($("try-removed"), difference(purified, seen));
  $("try-logits").replaceChildren(bars(logitRows(decision.pre_logits, decision.post_logits), "Logits of each class before and after purification"));
  $("try-score").replaceChildren(scoreChart(decision));
  $("try-link").href = link("try");
  $("try-link").hidden = asked.sample === undefined && asked.picture.length > LINKED;
  $("try-empty").hidden = true;
  $("try-shown").hidden = false;
}

// Attack

function settings() {
  return { attack: $("attack-name").value, label: $("attack-label").value, eps: $("eps").value, steps: $("steps").value, seed: $("seed").value };
}

function describe() {
  const chosen = state.playground.attacks.find((one) => one.name === $("attack-name").value);
  $("attack-about").textContent = chosen ? chosen.about : "";
  $("eps-shown").textContent = `${$("eps").value}/255`;
}

async function attack() {
  if (!state.chosen) throw new Problem("Choose a picture first.");
  const words = settings();
  const numbers = Object.fromEntries(["label", "eps", "steps", "seed"].map((name) => [name, Number(words[name])]));
  $("attack-run").disabled = true;
  $("attack-status").textContent = "Attacking. Attacks that know the defence take some seconds.";
  try {
    const asked = state.chosen;
    const film = await ask("/v1/attack", { picture: asked.picture, ...numbers, attack: words.attack });
    if (asked !== state.chosen) return;
    const urls = [asked.picture, ...film.frames.map((frame) => frame.picture), film.picture, film.purified ?? film.picture];
    const images = await Promise.all(urls.map((one) => pixels(asUrl(one))));
    const logits = [...film.frames.map((frame) => frame.logits), film.logits];
    const steps = [...film.frames.map((frame) => frame.step), "end"];
    const reach = [Math.min(...logits.flat()), Math.max(...logits.flat())];
    state.film = { before: images[0], pictures: images.slice(1, -1), logits, steps, reach };
    paint($("attack-before"), images[0]);
    paint($("attack-purified"), images.at(-1));
    showAnswers(film);
    $("attack-score").replaceChildren(scoreChart(film.answers.defense));
    $("attack-link").href = link("attack", words);
    $("attack-link").hidden = state.chosen.sample === undefined && state.chosen.picture.length > LINKED;
    history.replaceState(null, "", link("attack", words));
    $("step").max = state.film.pictures.length - 1;
    $("attack-shown").hidden = false;
    const left = film.finished ? "" : " The time was up before it was done.";
    $("attack-status").textContent = `${film.searches} ${film.searches > 1 ? "searches; the last is shown" : "search"}, ${film.seconds.toFixed(1)} s.${left}`;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) showStep(state.film.pictures.length - 1);
    else play();
  } catch (error) {
    $("attack-status").textContent = "";
    throw error;
  } finally {
    $("attack-run").disabled = false;
  }
}

const WHO = { bare: "the classifier alone", defense: "this defence", check: "the classifier behind a neighbourhood check of 2/255" };

function showAnswers(film) {
  const body = $("attack-answers").tBodies[0];
  body.replaceChildren();
  for (const [who, answer] of Object.entries(film.answers)) {
    const row = body.insertRow();
    row.insertCell().textContent = WHO[who];
    const cell = row.insertCell();
    cell.textContent = className(answer.label);
    cell.className = answer.label < 0 ? "" : answer.label === film.label ? "right" : "wrong";
    const judged = answer.label < 0 ? "refused" : answer.label === film.label ? "right" : "wrong";
    row.insertCell().textContent = answer.flagged && who === "defense" ? `${judged}, flagged` : judged;
  }
  const { bare, defense } = film.answers;
  const fell = defense.label >= 0 && defense.label !== film.label;
  const first = film.frames.length === 0
    ? "There was nothing to attack: the defence answers this picture wrongly, or not at all, as it is."
    : fell ? `The attack succeeds: this defence answers ${className(defense.label)}.`
      : defense.label < 0 ? "The attack gets no answer: this defence refuses the picture."
        : `The attack fails: this defence still answers ${className(defense.label)}.`;
  const alone = bare.label === film.label ? "The classifier alone is right." : `The classifier alone answers ${className(bare.label)}.`;
  say($("attack-answer"), [first, `${alone} True class: ${className(film.label)}.`], fell ? "bad" : "good");
}

function showStep(at) {
  const film = state.film;
  $("step").value = at;
  $("step-shown").textContent = film.steps[at] === "end" ? "end" : `${film.steps[at]}`;
  paint($("attack-picture"), film.pictures[at]);
  paint($("attack-change"), difference(film.before, film.pictures[at]));
  $("attack-logits").replaceChildren(bars(logitRows(film.logits[at]), `Logits at step ${film.steps[at]}`, film.reach));
}

function play() {
  stop();
  let at = 0;
  showStep(0);
  $("play").setAttribute("aria-pressed", "true");
  $("play").textContent = "Pause";
  state.playing = setInterval(() => {
    at += 1;
    if (at >= state.film.pictures.length) return stop();
    return showStep(at);
  }, 180);
}

function stop() {
  clearInterval(state.playing);
  state.playing = 0;
  $("play").setAttribute("aria-pressed", "false");
  $("play").textContent = "Play";
}

// Monitor

async function showMonitor() {
  const seen = await ask("/v1/monitor");
  if (!seen.on) {
    say($("monitor-answer"), ["The monitor is off.", seen.why_off ?? ""], "");
    return;
  }
  const [evidence, recent] = [seen.log10_evidence, seen.recent];
  const plain = Math.abs(evidence) < 6 ? (10 ** evidence).toPrecision(2) : `10^${evidence.toFixed(0)}`;
  const more = seen.alarm ? `Raised at picture ${seen.alarm_at}.` : `Evidence ${plain}; the alarm is raised at ${seen.alarm_level}.`;
  say($("monitor-answer"), [seen.alarm ? "Alarm: the pictures have changed." : "The pictures look like the calibration pictures.", more], seen.alarm ? "bad" : "good");
  $("monitor-level").textContent = `${seen.alarm_level} with a probability of at most ${100 / seen.alarm_level} %`;
  const counts = { pictures: seen.pictures, flagged: seen.flagged, "not answered": seen.abstained, "evidence now": plain };
  $("monitor-counts").replaceChildren(...Object.entries(counts).map(([name, value]) => {
    const [box, term, number] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
    [term.textContent, number.textContent] = [name, value];
    box.append(term, number);
    return box;
  }));
  const points = recent.log10_evidence.map((value, place) => [recent.first + place, value]).filter(([, value]) => value !== null);
  $("monitor-evidence").replaceChildren(curve(points, Math.log10(seen.alarm_level), `Evidence ${plain} after ${seen.watched} pictures`));
  $("monitor-p").replaceChildren(histogram(recent.p_value_histogram, [0, 1], [], "p-values from 0 to 1; flat while nothing has changed"));
}

// Start

function fillForm() {
  const groups = { oblivious: "does not know the defence", adaptive: "knows everything" };
  for (const [knowledge, label] of Object.entries(groups)) {
    const group = document.createElement("optgroup");
    group.label = label;
    for (const one of state.playground.attacks.filter((entry) => entry.knowledge === knowledge)) group.append(new Option(one.title, one.name));
    if (group.children.length) $("attack-name").append(group);
  }
  state.model.classes.forEach((name, label) => $("attack-label").append(new Option(name, label)));
  $("attack-off").hidden = state.playground.on;
  $("attack-form").hidden = !state.playground.on;
  describe();
}

async function follow() {
  const [part, text] = location.hash.slice(1).split("?", 2);
  const words = new URLSearchParams(text);
  if (PARTS.includes(part)) showPart(part);
  for (const [name, id] of Object.entries({ attack: "attack-name", eps: "eps", steps: "steps", seed: "seed" })) {
    if (words.has(name)) $(id).value = words.get(name);
  }
  describe();
  const sample = [...$("samples").children].find((button) => button.dataset.sample === words.get("sample"));
  if (sample) sample.click();
  else if (words.get("picture")) choose({ picture: words.get("picture") });
  if (words.has("label")) $("attack-label").value = words.get("label");
  if (part === "attack" && words.has("attack") && state.chosen && state.playground.on) await attack();
}

function listen() {
  for (const part of PARTS) $(`tab-${part}`).onclick = () => leadTo(part);
  document.querySelector('[role="tablist"]').onkeydown = (event) => {
    const turn = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!turn) return;
    const next = PARTS[(PARTS.indexOf(state.part) + turn + PARTS.length) % PARTS.length];
    leadTo(next);
    $(`tab-${next}`).focus();
  };
  $("file").onchange = (event) => take(event.target.files[0]);
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      $("drop").classList.toggle("over", name === "dragover");
      if (name === "drop") take(event.dataTransfer.files[0]);
    });
  }
  document.addEventListener("paste", (event) => {
    const file = [...event.clipboardData.files][0];
    if (file) take(file);
  });
  $("attack-form").onsubmit = (event) => {
    event.preventDefault();
    guarded(attack);
  };
  $("attack-form").oninput = describe;
  $("step").oninput = (event) => {
    stop();
    showStep(Number(event.target.value));
  };
  $("play").onclick = () => (state.playing ? stop() : play());
  window.addEventListener("hashchange", () => guarded(follow));
  setInterval(() => {
    if (state.part === "monitor" && !document.hidden) guarded(showMonitor);
  }, 2000);
}

guarded(async () => {
  state.model = await ask("/v1/model");
  state.playground = await ask("/v1/playground");
  const { rule, detector, purifier } = state.model.settings;
  const parts = [`rule ${rule}`, purifier?.name, detector?.name].filter(Boolean).join(", ");
  $("about").textContent = `This service answers with ${state.model.name} (${parts}).`;
  fillForm();
  listen();
  await fillSamples();
  await follow();
});

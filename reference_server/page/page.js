// The page: send a prompt, show the answer as it comes, and beside it where its time goes.
import { events, gauges, measureOffset, timeline } from "./stream.js";
import { drawStages, drawSummary, drawTokens, milliseconds } from "./trip.js";

const element = (id) => document.getElementById(id);
const conversation = `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
let model = "";
let running = null;

function say(who, text) {
  const said = document.createElement("div");
  said.className = `said ${who}`;
  said.textContent = text;
  element("talk").append(said);
  said.scrollIntoView({ block: "end" });
  return said;
}

function headers() {
  const key = element("key").value;
  return key ? { authorization: `Bearer ${key}` } : {};
}

async function showGauges() {
  const now = await gauges().catch(() => ({}));
  element("running").textContent = now.running ?? "–";
  element("waiting").textContent = now.waiting ?? "–";
  element("kv").hidden = now.used === undefined;
  if (now.used !== undefined) {
    element("kv-meter").value = now.used / now.blocks;
    element("kv-text").textContent = `${Math.round(now.used)} of ${now.blocks}`;
  }
}

async function showTrip(run) {
  if (!run.id) return;
  const trip = await timeline(run.id, headers()).catch(() => null);
  if (!trip || running !== run) return;
  run.trip = trip;
  drawStages(trip, run);
  drawSummary(trip, run);
}

async function watch(run) {
  while (running === run && !run.ended) {
    await Promise.all([showTrip(run), showGauges()]);
    await new Promise((done) => setTimeout(done, 250));
  }
}

async function stream(run, body, answer) {
  for await (const { at, event } of events(body)) {
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices?.[0];
    const text = choice?.delta?.content ?? "";
    const stamp = event.promptpath;
    if (stamp && stamp.step !== null) {
      const token = { at, text, step: stamp.step, batch: stamp.batch, sentNs: stamp.sent_ns };
      run.tokens.push(token);
      if (!run.drawing) {
        run.drawing = true;
        requestAnimationFrame(() => { run.drawing = false; drawTokens(run); });
      }
    }
    if (text) {
      answer.textContent += text;
      answer.scrollIntoView({ block: "end" });
    }
  }
}

async function ask(prompt) {
  const clock = await measureOffset(headers());
  const run = { clock, tokens: [], id: null, ended: false, sent: 0, stop: new AbortController() };
  running = run;
  say("user", prompt);
  const answer = say("assistant", "");
  const request = {
    model, stream: true, max_tokens: Number(element("most").value),
    messages: [{ role: "user", content: prompt }],
  };
  if (element("remember").checked) request.conversation = conversation;
  try {
    run.sent = performance.now();
    const response = await fetch("v1/chat/completions", {
      method: "POST", signal: run.stop.signal, body: JSON.stringify(request),
      headers: { "content-type": "application/json", "x-promptpath-timing": "1", ...headers() },
    });
    run.id = response.headers.get("x-request-id");
    element("trip-id").textContent = run.id ?? "";
    if (!response.ok) throw new Error((await response.json()).error?.message ?? response.status);
    watch(run);
    await stream(run, response.body, answer);
  } catch (error) {
    answer.classList.add("failed");
    answer.textContent += error.name === "AbortError" ? " (stopped)" : error.message;
  } finally {
    run.ended = true;
  }
  drawTokens(run);
  await showTrip(run);
  await showGauges();
  const took = performance.now() - run.sent;
  element("trip-id").textContent = `${run.id ?? ""} · ${milliseconds(took)}`;
  document.body.dataset.state = "done";
}

element("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const prompt = element("prompt").value.trim();
  if (!prompt) return;
  document.body.dataset.state = "running";
  element("send").hidden = true;
  element("stop").hidden = false;
  try {
    await ask(prompt);
  } catch (error) {
    say("assistant failed", error.message);
  } finally {
    element("send").hidden = false;
    element("stop").hidden = true;
    element("prompt").value = "";
  }
});
element("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    element("ask").requestSubmit();
  }
});
element("stop").addEventListener("click", () => running?.stop.abort());

const list = await (await fetch("v1/models")).json();
model = list.data[0].id;
element("model").textContent = model;
document.body.dataset.state = "ready";
await showGauges();
setInterval(() => { if (!running || running.ended) showGauges(); }, 3000);

// Drawing the trip: a row for each stage, a bar for each token. Text goes in as text only.

const GATEWAY = ["auth", "read", "validate", "limits", "refuse"];
const TITLES = {
  out: "to the server", auth: "check the key", read: "read the body", validate: "check fields",
  limits: "check limits", session: "session", tokenize: "tokenize", queue: "queue",
  prefill: "prefill", decode: "decode", save: "save the turn", write: "write", back: "back to you", refuse: "refuse",
};
const element = (id) => document.getElementById(id);

export function milliseconds(ms) {
  if (ms >= 10000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 100 ? `${ms.toFixed(0)} ms` : ms >= 1 ? `${ms.toFixed(1)} ms` : `${ms.toFixed(3)} ms`;
}

// The stages as {name, start, end} in ms since the prompt was sent, the path's two legs included.
function rows(trip, run) {
  const at = (ns) => ns / 1e6 - run.clock.offset - run.sent;
  const found = trip.stages.map((each) => ({
    name: each.stage, start: at(each.start_ns), end: at(each.end_ns), ms: each.ms,
  }));
  const out = found[0].start;
  found.unshift({ name: "out", start: 0, end: Math.max(out, 0), ms: out, error: run.clock.error });
  const first = run.tokens[0];
  const prefill = found.find((each) => each.name === "prefill");
  if (first && prefill && first.sentNs) {
    const back = first.at - run.sent - at(first.sentNs);
    const place = found.indexOf(prefill) + 1;
    const leg = { name: "back", start: prefill.end, end: prefill.end + Math.max(back, 0), ms: back };
    found.splice(place, 0, { ...leg, error: run.clock.error });
  }
  return found;
}

export function drawStages(trip, run) {
  const found = rows(trip, run);
  const total = Math.max(...found.map((each) => each.end), 1);
  const list = found.map((each) => {
    const group = GATEWAY.includes(each.name) ? "gateway" : each.name;
    const row = document.createElement("li");
    row.className = `of-${["out", "back"].includes(each.name) ? "path" : group}`;
    const name = Object.assign(document.createElement("span"), { className: "name" });
    name.textContent = TITLES[each.name] ?? each.name;
    const track = Object.assign(document.createElement("span"), { className: "track" });
    const bar = Object.assign(document.createElement("span"), { className: "bar" });
    bar.style.left = `${(each.start / total) * 100}%`;
    bar.style.width = `${(Math.max(each.end - each.start, 0) / total) * 100}%`;
    track.append(bar);
    if (each.name === "prefill") {
      for (const chunk of trip.prefill.slice(1)) {
        const mark = Object.assign(document.createElement("span"), { className: "chunk" });
        const start = chunk.start_ns / 1e6 - run.clock.offset - run.sent;
        mark.style.left = `${(start / total) * 100}%`;
        track.append(mark);
      }
    }
    const ms = Object.assign(document.createElement("span"), { className: "ms" });
    const small = each.error !== undefined && Math.abs(each.ms) <= each.error;
    ms.textContent = small ? `< ${milliseconds(each.error)}` : milliseconds(each.ms);
    row.append(name, track, ms);
    return row;
  });
  element("stages").replaceChildren(...list);
}

export function drawTokens(run) {
  const gaps = run.tokens.map((token, index) => (index ? token.at - run.tokens[index - 1].at : 0));
  const later = gaps.slice(1);
  const most = Math.max(...later, 1);
  const shown = run.tokens.slice(-400);
  const skipped = run.tokens.length - shown.length;
  const bars = shown.map((token, index) => {
    const number = index + skipped;
    const bar = document.createElement("i");
    bar.style.height = number ? `${Math.max((gaps[number] / most) * 100, 3)}%` : "100%";
    bar.className = number === 0 ? "first" : token.batch > 4 ? "crowd" : token.batch > 1 ? "shared" : "";
    const gap = number ? `${milliseconds(gaps[number])} after the one before` : "the first token";
    bar.title = `${JSON.stringify(token.text)}: ${gap}, step ${token.step}, batch ${token.batch}`;
    return bar;
  });
  element("tokens").replaceChildren(...bars);
  if (later.length > 1) {
    const sorted = [...later].sort((one, two) => one - two);
    const middle = milliseconds(sorted[Math.floor(sorted.length / 2)]);
    const batch = run.tokens.at(-1).batch;
    element("cadence").textContent =
      `${run.tokens.length} tokens, the middle gap ${middle}, the longest ${milliseconds(most)}; batch ${batch} now.`;
  }
}

export function drawSummary(trip, run) {
  const stage = (name) => trip.stages.find((each) => each.stage === name)?.ms ?? 0;
  const first = run.tokens[0];
  const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });
  if (!first) {
    const name = trip.stages.at(-1).stage;
    const said = trip.outcome === null ? `It is in: ${TITLES[name] ?? name}.` : `It ended: ${trip.outcome}.`;
    element("summary").textContent = said;
    return;
  }
  const ttft = first.at - run.sent;
  const queue = stage("queue");
  const prefill = stage("prefill");
  const names = ["auth", "read", "validate", "limits", "session", "tokenize"];
  const before = names.reduce((sum, name) => sum + stage(name), 0);
  const rest = Math.max(ttft - queue - prefill - before, 0);
  const parts = [["queue", queue], ["prefill", prefill], ["the gateway", before], ["the path", rest]];
  const [cause, ms] = parts.reduce((one, two) => (two[1] > one[1] ? two : one));
  const share = Math.round((ms / ttft) * 100);
  const cached = trip.cached_tokens ? `, ${trip.cached_tokens} of them from the prefix cache` : "";
  element("summary").replaceChildren(
    "First token after ", bold(milliseconds(ttft)), ": ", bold(`${share} %`), ` of it is ${cause}. `,
    `${trip.prompt_tokens} prompt tokens${cached}.`,
  );
}

// Talking to the server: the answer's stream, the clock, the timeline, the metrics.

// The data of each server-sent event, with the time at which it was read (ms of this page's clock).
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const at = performance.now();
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data: "));
      const text = data.map((line) => line.slice(6)).join("\n");
      if (text && text !== "[DONE]") yield { at, event: JSON.parse(text) };
    }
  }
}

// The server's clock minus ours, ms, and the most that it can be wrong by: half the shortest round
// trip (RFC 5905 section 8).
export async function measureOffset(headers) {
  let best = { offset: 0, error: Infinity };
  for (let turn = 0; turn < 5; turn += 1) {
    const sent = performance.now();
    const answer = await fetch("promptpath/clock", { headers, cache: "no-store" });
    const clock = await answer.json();
    const back = performance.now();
    const received = clock.received_ns / 1e6;
    const left = clock.sent_ns / 1e6;
    const error = (back - sent - (left - received)) / 2;
    if (error < best.error) best = { offset: (received - sent + (left - back)) / 2, error };
  }
  return best;
}

export async function timeline(id, headers) {
  const path = `promptpath/requests/${encodeURIComponent(id)}`;
  const answer = await fetch(path, { headers, cache: "no-store" });
  return answer.ok ? answer.json() : null;
}

// The few gauges that the page shows; a missing one is undefined.
export async function gauges() {
  const text = await (await fetch("metrics", { cache: "no-store" })).text();
  // Behind an edge each replica has a sample of its own.
  const values = (pattern) => [...text.matchAll(new RegExp(pattern, "gm"))].map((each) => Number(each[1]));
  const gauge = (name) => values(`^vllm:${name}\\{[^}]*\\} ([0-9.e+-]+)$`);
  const sum = (list) => (list.length ? list.reduce((one, two) => one + two) : undefined);
  const blocks = values('num_gpu_blocks="(\\d+)"');
  const used = gauge("kv_cache_usage_perc").map((share, index) => share * blocks[index]);
  return {
    running: sum(gauge("num_requests_running")),
    waiting: sum(gauge("num_requests_waiting")),
    used: sum(used),
    blocks: sum(blocks),
  };
}

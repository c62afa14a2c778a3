// llama.cpp's speed on one file, as tokens a second: node llama.mjs MODEL THREADS CONTEXT STEPS
// node-llama-cpp is found in the folder LLAMA_MODULES; it evaluates concurrent sequences in one batch.
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const folder = process.env.LLAMA_MODULES;
const entry = createRequire(`${folder}/`).resolve("node-llama-cpp");
const {getLlama} = await import(pathToFileURL(entry));

const [path, threads, context, steps] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: "error"});
const model = await llama.loadModel({modelPath: path});
const prompt = (length, from) => Array.from({length}, (_, at) => from + at);

async function decode(batch) {
    const size = context + steps + 8;
    const holder = await model.createContext({
        contextSize: size, sequences: batch, batchSize: 512, threads: {ideal: threads, min: threads}
    });
    const sequences = Array.from({length: batch}, () => holder.getSequence());
    await Promise.all(sequences.map((each, n) =>
        each.evaluateWithoutGeneratingNewTokens(prompt(context, 100 + n))));
    const started = performance.now();
    await Promise.all(sequences.map(async (each, n) => {
        let left = steps;
        for await (const _ of each.evaluate([200 + n], {temperature: 0, yieldEogToken: true}))
            if (--left <= 0) break;
    }));
    const took = performance.now() - started;
    await holder.dispose();
    return batch * steps * 1e3 / took;
}

async function prefill(length) {
    const holder = await model.createContext({
        contextSize: length + 8, sequences: 1, batchSize: 512, threads: {ideal: threads, min: threads}
    });
    const sequence = holder.getSequence();
    const started = performance.now();
    await sequence.evaluateWithoutGeneratingNewTokens(prompt(length, 100));
    const took = performance.now() - started;
    await holder.dispose();
    return length * 1e3 / took;
}

await prefill(64);
const found = {prefill_512: await prefill(512)};
for (const batch of [1, 4, 16]) found[`decode_${batch}`] = await decode(batch);
console.log(JSON.stringify(found));
process.exit(0);

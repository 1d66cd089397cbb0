// The reference tokenizers library, measured: prints load ms, encode MB/s, decode Mtokens/s, tokens.
//   node tokenizers.mjs NODE_MODULES TOKENIZER_JSON TEXT_FILE
import { createRequire } from 'node:module';
import fs from 'node:fs';
process.env.RAYON_NUM_THREADS = '1';
process.env.TOKENIZERS_PARALLELISM = 'false';
const T = createRequire(process.argv[2] + '/')('tokenizers');
const text = fs.readFileSync(process.argv[4], 'utf8');
// Processor time: other work on the machine does not count.
const now = () => { const { user, system } = process.cpuUsage(); return user + system; };
const seconds = (start) => (now() - start) / 1e6;

let start = now();
const tokenizer = T.Tokenizer.fromFile(process.argv[3]);
const load = seconds(start) * 1e3;
start = now();
const encoding = await tokenizer.encode(text, null, { addSpecialTokens: false });
const encode = Buffer.byteLength(text) / 1e6 / seconds(start);
const ids = encoding.getIds();
start = now();
await tokenizer.decode(ids, false);
const decode = ids.length / 1e6 / seconds(start);
console.log(load, encode, decode, ids.length);

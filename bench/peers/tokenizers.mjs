// The reference tokenizers library, measured: prints load ms, encode MB/s, decode Mtokens/s, tokens.
//   node tokenizers.mjs NODE_MODULES TOKENIZER_JSON TEXT_FILE
import { createRequire } from 'node:module';
import fs from 'node:fs';
process.env.RAYON_NUM_THREADS = '1';
process.env.TOKENIZERS_PARALLELISM = 'false';
const T = createRequire(process.argv[2] + '/')('tokenizers');
const text = fs.readFileSync(process.argv[4], 'utf8');
const seconds = (start) => Number(process.hrtime.bigint() - start) / 1e9;

let start = process.hrtime.bigint();
const tokenizer = T.Tokenizer.fromFile(process.argv[3]);
const load = seconds(start) * 1e3;
start = process.hrtime.bigint();
const encoding = await tokenizer.encode(text, null, { addSpecialTokens: false });
const encode = Buffer.byteLength(text) / 1e6 / seconds(start);
const ids = encoding.getIds();
start = process.hrtime.bigint();
await tokenizer.decode(ids, false);
const decode = ids.length / 1e6 / seconds(start);
console.log(load, encode, decode, ids.length);

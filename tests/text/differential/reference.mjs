// The reference library's answers for random and adversarial strings, one JSON object a line, for
// differential_test.cc to compare with.
//   node reference.mjs NODE_MODULES TOKENIZER_JSON SEED COUNT
// Lines: {"text", "ids", "ids_special", "tokens", "offsets", "decoded", "decoded_skip"} for a text, then
// {"decode_ids", "decoded", "decoded_skip"} for ids that no text gave. Offsets count UTF-16 units no more than bytes:
// they are in characters.
import { createRequire } from 'node:module';
import fs from 'node:fs';
const T = createRequire(process.argv[2] + '/')('tokenizers');
const [path, seed, count] = [process.argv[3], Number(process.argv[4]), Number(process.argv[5])];
const tokenizer = T.Tokenizer.fromFile(path);
tokenizer.disableTruncation();
tokenizer.disablePadding();
const description = JSON.parse(fs.readFileSync(path, 'utf8'));

let state = seed >>> 0 || 1;
const random = () => {  // xorshift32
  state ^= state << 13; state >>>= 0;
  state ^= state >>> 17;
  state ^= state << 5; state >>>= 0;
  return state;
};
const below = (n) => random() % n;
const pick = (list) => list[below(list.length)];

const added = (description.added_tokens ?? []).map((t) => t.content);
const vocabulary = Object.keys(tokenizer.getVocab(true));
const words = ['the', 'Hello', 'world', "don't", "I'LL", "we've", 'naïve', 'café', 'ÄÖÜß', 'Straße', 'İstanbul',
  'ǅ', 'ﬁ', '½', 'Ⅳ', '你好', '世界', '日本語', 'テスト', 'ー', '한국어', 'العربية', 'שלום', 'हिन्दी', 'ไทย', 'ქართული',
  '👨‍👩‍👧‍👦', '🏳️‍🌈', '🤷🏽‍♀️', '😀', '𝕳𝖊', 'e\u0301', 'a\u0308\u0323', '\u0301', '\u1100\u1161\u11a8', '각',
  '\u0344', 'Å', '\u212b', '\ufb01', '①', '㍿', '…', '\u3000', '0x1F', '3.14159', '1,000,000', '१२३', '٣', 'x=1;',
  '#define', '//', '<br/>', '<|', '|>', '[CLS]', '[MASK]', '<s>', '</s>', '<unk>', '<0x0A>', '▁', '▁▁', 'Ġ', '##ing',
  'https://ex.am/ple?q=1&r=%20#frag', "'s", "'T", "''", '"', '\\', '_', '__', '-', '--', '\u2019s', 'ſ', 'K'];
const spaces = [' ', '  ', '   ', '\t', '\n', '\n\n', '\r\n', '\r', '\v', '\f', '\u00a0', '\u2003', '\u2028', '\u0085',
  '\u200b', '\u200d', '\ufeff', '\u180e', '\0', '\u0001', '\u001c', '\u007f', ' \n', '\n '];
const ranges = [[0x20, 0x7e], [0, 0x1f], [0xa0, 0xff], [0x100, 0x24f], [0x300, 0x36f], [0x370, 0x5ff], [0x600, 0x7ff],
  [0x900, 0xdff], [0xe00, 0x11ff], [0x1e00, 0x1fff], [0x2000, 0x2bff], [0x3000, 0x30ff], [0x3400, 0x4dbf],
  [0x4e00, 0x9fff], [0xa000, 0xd7ff], [0xe000, 0xfaff], [0xfb00, 0xffff], [0x10000, 0x12fff], [0x16000, 0x18fff],
  [0x1b000, 0x1dfff], [0x1e000, 0x1f9ff], [0x1fa00, 0x323af], [0xe0000, 0xe01ef], [0, 0x10ffff]];
const codePoint = () => {
  const [low, high] = pick(ranges);
  const c = low + below(high - low + 1);
  return c >= 0xd800 && c < 0xe000 ? 'x' : String.fromCodePoint(c);
};
const fragment = () => {
  switch (below(12)) {
    case 0: case 1: return pick(words);
    case 2: case 3: return pick(spaces);
    case 4: return pick(words) + ' ' + pick(words);
    case 5: return codePoint();
    case 6: return codePoint() + codePoint();
    case 7: return pick(vocabulary);
    case 8: return added.length ? pick(added) : pick(vocabulary);
    case 9: return pick(['a', ' ', '\n', '1', '.', '▁', 'é', '你', '\t', 'Z', "'", '\u0301']).repeat(1 + below(20));
    case 10: return String(below(1e9));
    default: return pick(words).toUpperCase();
  }
};
const text = () => {
  const pieces = 1 + below(below(4) === 0 ? 40 : 8);
  let out = '';
  for (let i = 0; i < pieces; ++i) out += (below(3) === 0 ? ' ' : '') + fragment();
  return out.toWellFormed ? out.toWellFormed() : out;
};

const limit = Object.values(tokenizer.getVocab(true)).reduce((a, b) => Math.max(a, b), 0) + 3;
for (let i = 0; i < count; ++i) {
  const s = i === 0 ? '' : text();
  const plain = await tokenizer.encode(s, null, { addSpecialTokens: false });
  const special = await tokenizer.encode(s, null, { addSpecialTokens: true });
  const ids = plain.getIds();
  console.log(JSON.stringify({
    text: s, ids, ids_special: special.getIds(), tokens: plain.getTokens(), offsets: special.getOffsets(),
    decoded: await tokenizer.decode(special.getIds(), false), decoded_skip: await tokenizer.decode(special.getIds(), true),
  }));
  if (i % 4 === 0) {
    const random_ids = [];
    for (let k = below(20); k >= 0; --k) random_ids.push(below(limit));
    console.log(JSON.stringify({
      decode_ids: random_ids, decoded: await tokenizer.decode(random_ids, false),
      decoded_skip: await tokenizer.decode(random_ids, true),
    }));
  }
}

// Writes what the regular expressions of the reference library take each of their classes for, as JSON
// {name: [[first, last], ...]}: properties by their names without blanks, hyphens and underscores, and POSIX brackets as
// "[:name:]". make_regex_properties.py turns that into src/text/regex_properties.cc.
//   node dump_regex_properties.mjs FOLDER_OF_NODE_MODULES > properties.json
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';
const require = createRequire(process.argv[2] + '/');
const T = require('tokenizers');

// The engine has its names in its binary, one after another; whatever else looks like a name is tried in vain.
const folder = path.dirname(require.resolve('tokenizers'));
const binary = fs.readFileSync(path.join(folder, 'tokenizers.linux-x64-gnu.node'), 'latin1');
const names = new Set([...binary.matchAll(/(?<=\0|[^ -~])([a-z][a-z0-9]*)(?=\0)/g)].map((match) => match[1]));
const brackets = ['alnum', 'alpha', 'ascii', 'blank', 'cntrl', 'digit', 'graph', 'lower', 'print', 'punct', 'space', 'upper',
  'xdigit', 'word'];

const texts = [];
for (let first = 0; first < 0x110000; first += 4096) {
  if (first >= 0xd800 && first < 0xe000) continue;
  let text = '';
  for (let c = first; c < first + 4096; ++c) if (c < 0xd800 || c >= 0xe000) text += String.fromCodePoint(c);
  texts.push(text);
}
// What is left of all code points when those that match are removed; nothing for an expression that is refused.
const unmatched = (regex) => {
  let split;
  try {
    split = T.Tokenizer.fromString(JSON.stringify({
      version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, post_processor: null,
      decoder: null, model: { type: 'WordLevel', vocab: { a: 0 }, unk_token: 'a' },
      pre_tokenizer: { type: 'Split', pattern: { Regex: regex }, behavior: 'Removed', invert: false },
    })).getPreTokenizer();
  } catch (error) {
    return undefined;
  }
  const ranges = [];
  for (const text of texts) {
    for (const [piece] of split.preTokenizeString(text)) {
      for (const character of piece) {
        const c = character.codePointAt(0);
        const last = ranges[ranges.length - 1];
        if (last && last[1] === c - 1) last[1] = c;
        else ranges.push([c, c]);
      }
    }
  }
  return ranges;
};

const out = {};
for (const name of [...names].sort()) out[name] = unmatched(`\\p{^${name}}`);
for (const name of brackets) out[`[:${name}:]`] = unmatched(`[[:^${name}:]]`);
process.stdout.write(JSON.stringify(out));

// Writes what the reference library takes each Unicode class for, as JSON: {class: [[first, last], ...]}, by asking
// it about every code point. make_unicode_tables.py turns that into src/text/unicode_tables.cc.
//   node dump_unicode.mjs FOLDER_OF_NODE_MODULES > classes.json
import { createRequire } from 'node:module';
const T = createRequire(process.argv[2] + '/')('tokenizers');

const codes = [];
for (let c = 0; c < 0x110000; ++c) if (c < 0xd800 || c >= 0xe000) codes.push(c);
const ranges = (holds) => {
  const found = [];
  for (const c of codes) {
    if (!holds(String.fromCodePoint(c))) continue;
    const last = found[found.length - 1];
    if (last && last[1] === c - 1) last[1] = c;
    else found.push([c, c]);
  }
  return found;
};
const preTokenizer = (description) =>
  T.Tokenizer.fromString(
    JSON.stringify({
      version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, post_processor: null,
      decoder: null, pre_tokenizer: description, model: { type: 'WordLevel', vocab: { a: 0 }, unk_token: 'a' },
    }),
  ).getPreTokenizer();
const removedBy = (tokenizer) => (s) => tokenizer.preTokenizeString(s).length === 0;

const out = {};
const clean = T.bertNormalizer({ cleanText: true, handleChineseChars: false, stripAccents: false, lowercase: false });
out.control = ranges((s) => s !== '\0' && s !== '\uFFFD' && clean.normalizeString(s) === '');
const marks = T.stripAccentsNormalizer();
out.mark = ranges((s) => marks.normalizeString(s) === '');
const nonspacing = T.bertNormalizer({ cleanText: false, handleChineseChars: false, stripAccents: true, lowercase: false });
out.nonspacing_mark = ranges((s) => nonspacing.normalizeString(s) === '');
out.punctuation = ranges(removedBy(T.punctuationPreTokenizer('removed')));
const digits = T.digitsPreTokenizer(true);
out.numeric = ranges((s) => digits.preTokenizeString('a' + s + 'a').length === 3);
const words = T.whitespacePreTokenizer();
out.word = ranges((s) => words.preTokenizeString('a' + s + 'a').length === 1);

// Scripts: code points that UnicodeScripts does not separate have one number, in order of appearance.
const scripts = preTokenizer({ type: 'UnicodeScripts' });
const samples = [];
let previous = 0;
out.scripts = [];
for (const c of codes) {
  const s = String.fromCodePoint(c);
  const joins = (k) => k < samples.length && scripts.preTokenizeString(samples[k] + s).length === 1;
  let script = joins(previous) ? previous : samples.findIndex((_, k) => joins(k));
  if (scripts.preTokenizeString(s).length === 0) continue;  // goes with any script: the space, unassigned ones
  if (script < 0) script = samples.push(s) - 1;
  previous = script;
  const last = out.scripts[out.scripts.length - 1];
  if (last && last[1] === c - 1 && last[2] === script) last[1] = c;
  else out.scripts.push([c, c, script]);
}

const lower = T.lowercase();
out.lower = codes.filter((c) => lower.normalizeString(String.fromCodePoint(c)) !== String.fromCodePoint(c))
  .map((c) => [c, ...[...lower.normalizeString(String.fromCodePoint(c))].map((s) => s.codePointAt(0))]);
process.stdout.write(JSON.stringify(out));

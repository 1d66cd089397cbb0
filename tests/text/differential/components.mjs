// The reference library's answers for small tokenizers that have one component each, so that every component and
// option of tokenizer.json is compared. One JSON object a line: {"name", "tokenizer"} starts a tokenizer, then come
// lines as reference.mjs writes them.
//   node components.mjs NODE_MODULES SEED COUNT > ../data/components.jsonl
// COUNT strings for each tokenizer; tests/text/data/components.jsonl was recorded with seed 1 and 4 strings.
import { createRequire } from 'node:module';
const T = createRequire(process.argv[2] + '/')('tokenizers');
const [seed, count] = [Number(process.argv[3]), Number(process.argv[4])];

let state = seed >>> 0 || 1;
const random = () => {
  state ^= state << 13; state >>>= 0;
  state ^= state >>> 17;
  state ^= state << 5; state >>>= 0;
  return state;
};
const below = (n) => random() % n;
const pick = (list) => list[below(list.length)];

// Unknown pieces are spelled as they stand in the text, so this model shows what normalizers and pre-tokenizers do.
const shows = { type: 'Unigram', unk_id: 0, vocab: [['<unk>', 0]], byte_fallback: false };
const base = { version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null,
  pre_tokenizer: null, post_processor: null, decoder: null, model: shows };
const added = (id, content, flags = {}) => ({ id, content, single_word: false, lstrip: false, rstrip: false,
  normalized: false, special: false, ...flags });
const bytes = Object.fromEntries(T.byteLevelAlphabet().sort().map((c, i) => [c, i]));
const vocab = (tokens, from = 0) => Object.fromEntries(tokens.map((t, i) => [t, from + i]));
const hex = (b) => '<0x' + b.toString(16).toUpperCase().padStart(2, '0') + '>';
const allBytes = Array.from({ length: 256 }, (_, b) => hex(b));

const cases = [];
const add = (name, changes) => cases.push([name, { ...base, ...changes }]);

for (const type of ['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'StripAccents', 'Nmt', 'ByteLevel']) {
  add('normalizer ' + type, { normalizer: { type } });
}
add('normalizer NFD StripAccents', { normalizer: { type: 'Sequence', normalizers: [{ type: 'NFD' }, { type: 'StripAccents' }, { type: 'Lowercase' }] } });
for (const [l, r] of [[true, true], [true, false], [false, true]]) add(`normalizer Strip ${l} ${r}`, { normalizer: { type: 'Strip', strip_left: l, strip_right: r } });
add('normalizer Prepend', { normalizer: { type: 'Prepend', prepend: '▁x' } });
for (const [pattern, content] of [[{ String: ' ' }, '▁'], [{ String: 'aa' }, 'b'], [{ Regex: '\\s+' }, ' '], [{ Regex: '(a|b)+' }, ''], [{ Regex: '^.' }, '<>'], [{ String: 'é' }, 'eé']]) {
  add('normalizer Replace ' + JSON.stringify(pattern), { normalizer: { type: 'Replace', pattern, content } });
}
for (let bits = 0; bits < 16; ++bits) {
  add('normalizer BertNormalizer ' + bits, { normalizer: { type: 'BertNormalizer', clean_text: !!(bits & 1), handle_chinese_chars: !!(bits & 2), strip_accents: bits & 4 ? true : null, lowercase: !!(bits & 8) } });
}

const behaviors = ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'];
for (const behavior of behaviors) {
  add('pre_tokenizer Punctuation ' + behavior, { pre_tokenizer: { type: 'Punctuation', behavior } });
  for (const invert of [false, true]) {
    for (const pattern of [{ String: ' ' }, { Regex: '\\s' }, { Regex: '[0-9]+|\\p{Lu}' }, { Regex: 'x*' }]) {
      add(`pre_tokenizer Split ${JSON.stringify(pattern)} ${behavior} ${invert}`, { pre_tokenizer: { type: 'Split', pattern, behavior, invert } });
    }
  }
}
for (const regex of ['\\p{N}{1,3}+', '[^\\s\\p{L}&&[^0-9]]+', '[a-f[0-9]]+', '(?i:the|ß)', '\\w+', '\\W+', '\\bt', '^.', '.$', '\\h+',
  '[[:alpha:]]+', '[[:^punct:]]+', '[[:punct:]]', '\\p{Han}+', '\\p{^Latin}', '\\P{Ll}', '(?m:a.)', '\\R', '[\\d\\-x]', '[^\\S\\n]+', '(?<=a) ', 'a{,2}', '(\\d)\\1',
  '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+', '[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*',
  '(?>a+)b|\\s+(?!\\S)|\\s+', '\\A.', '.\\z', '\\Q', '\\x41|\\u00e9', '[\\x{4e00}-\\x{9fff}]', "'(?i:[sdmt]|ll|ve|re)", '\\p{Alphabetic}+', '\\p{Emoji}', '\\S', '\\D+']) {
  add('regex ' + regex, { pre_tokenizer: { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false } });
}
for (const type of ['Whitespace', 'WhitespaceSplit', 'BertPreTokenizer', 'UnicodeScripts']) add('pre_tokenizer ' + type, { pre_tokenizer: { type } });
add('pre_tokenizer Digits true', { pre_tokenizer: { type: 'Digits', individual_digits: true } });
add('pre_tokenizer Digits false', { pre_tokenizer: { type: 'Digits', individual_digits: false } });
add('pre_tokenizer CharDelimiterSplit', { pre_tokenizer: { type: 'CharDelimiterSplit', delimiter: 'e' } });
add('pre_tokenizer FixedLength', { pre_tokenizer: { type: 'FixedLength', length: 3 } });
for (const prepend_scheme of ['always', 'never', 'first']) {
  for (const split of [true, false]) {
    add(`pre_tokenizer Metaspace ${prepend_scheme} ${split}`, {
      pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme, split, add_prefix_space: prepend_scheme !== 'never' },
      added_tokens: [added(1, '<|x|>'), added(2, 'mid', { normalized: true })] });
  }
}
add('pre_tokenizer Metaspace first behind Strip', {
  normalizer: { type: 'Strip', strip_left: true, strip_right: false },
  pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: true } });
for (const use_regex of [true, false]) {
  for (const add_prefix_space of [true, false]) {
    add(`pre_tokenizer ByteLevel ${use_regex} ${add_prefix_space}`, { pre_tokenizer: { type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex } });
  }
}
add('pre_tokenizer Sequence', { pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'WhitespaceSplit' }, { type: 'Punctuation', behavior: 'Isolated' }, { type: 'Digits', individual_digits: true }] } });
add('pre_tokenizer ByteLevel then Split', { pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true }, { type: 'Split', pattern: { String: 'Ġ' }, behavior: 'MergedWithNext', invert: false }] } });

// Models.
const letters = ['a', 'b', 'c', 'd', 'e', 'é', '▁', ' ', '你', '1'];
const merges = [['a', 'b'], ['ab', 'c'], ['e', 'é'], ['▁', 'a'], ['b', 'c'], ['ab', 'ab'], ['a', 'a']];
const bpeVocab = vocab([...letters, 'ab', 'abc', 'eé', '▁a', 'bc', 'abab', 'aa', '<unk>', 'xyz', 'the']);
const bpe = (changes = {}) => ({ type: 'BPE', dropout: null, unk_token: '<unk>', continuing_subword_prefix: null, end_of_word_suffix: null,
  fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab: bpeVocab, merges, ...changes });
add('model BPE', { model: bpe() });
add('model BPE merges as text', { model: bpe({ merges: merges.map((m) => m.join(' ')) }) });
add('model BPE fuse_unk', { model: bpe({ fuse_unk: true }) });
add('model BPE no unk', { model: bpe({ unk_token: null }) });
add('model BPE ignore_merges', { model: bpe({ ignore_merges: true }), pre_tokenizer: { type: 'WhitespaceSplit' } });
add('model BPE byte_fallback', { model: bpe({ byte_fallback: true, vocab: { ...bpeVocab, ...vocab(allBytes, 20) } }) });
add('model BPE byte_fallback in part', { model: bpe({ byte_fallback: true, fuse_unk: true, vocab: { ...bpeVocab, ...vocab(allBytes.slice(0, 200), 20) } }) });
add('model BPE affixes', { pre_tokenizer: { type: 'WhitespaceSplit' }, model: bpe({ continuing_subword_prefix: '##', end_of_word_suffix: '</w>',
  vocab: vocab(['a', 'b', '##a', '##b', '##a</w>', '##b</w>', 'a</w>', 'b</w>', 'ab', 'ab</w>', 'abb</w>', '<unk>', '##e']), merges: [['a', '##b'], ['a', '##b</w>'], ['ab', '##b</w>']] }) });
add('model BPE dropout 0', { model: bpe({ dropout: 0.0 }) });
const byteBpe = bpe({ unk_token: null, vocab: { ...bytes, ...vocab(['ab', 'Ġa', 'Ġab', 'Ã©', 'ĠĠ', 'the', 'Ġthe', 'th', 'ä½', 'ä½ł'], 256) },
  merges: [['a', 'b'], ['Ġ', 'a'], ['Ġ', 'ab'], ['Ã', '©'], ['Ġ', 'Ġ'], ['t', 'h'], ['th', 'e'], ['Ġ', 'the'], ['ä', '½'], ['ä½', 'ł']] });
const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
add('model BPE bytes', { model: byteBpe, pre_tokenizer: byteLevel, decoder: byteLevel, post_processor: byteLevel });
add('model BPE bytes prefix space', { model: byteBpe, pre_tokenizer: { ...byteLevel, add_prefix_space: true }, decoder: byteLevel, post_processor: { ...byteLevel, add_prefix_space: true } });
add('model BPE bytes with suffix', { model: { ...byteBpe, end_of_word_suffix: '</w>', vocab: { ...byteBpe.vocab, ...vocab(['a</w>', 'b</w>', 'ab</w>', '<unk>'], 266) }, unk_token: '<unk>', merges: [...byteBpe.merges, ['a', 'b</w>']] }, pre_tokenizer: byteLevel, decoder: byteLevel });
add('model BPE bytes missing letters', { model: { ...byteBpe, vocab: vocab(['a', 'b', 'ab', 'Ã', '<unk>']), merges: [['a', 'b']], unk_token: '<unk>', fuse_unk: true }, pre_tokenizer: byteLevel, decoder: byteLevel });
const pieces = [['<unk>', 0], ['a', -2], ['b', -2.5], ['ab', -3.1], ['▁', -2], ['▁a', -3], ['▁ab', -4], ['é', -4], ['你好', -6], ['aaaa', -5], ['x', -9], ['the', -3], ['▁the', -2.2]];
const metaspace = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true };
add('model Unigram', { model: { type: 'Unigram', unk_id: 0, vocab: pieces, byte_fallback: false }, pre_tokenizer: metaspace, decoder: metaspace });
add('model Unigram byte_fallback', { model: { type: 'Unigram', unk_id: 0, vocab: [...pieces, ...allBytes.map((b) => [b, -10])], byte_fallback: true }, pre_tokenizer: metaspace, decoder: { type: 'Sequence', decoders: [{ type: 'ByteFallback' }, metaspace] } });
const wordVocab = vocab(['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'a', '##a', 'ab', '##b', 'the', '##the', 'hello', 'world', ',', '.', '!', 'é', '你', '好', '1', '##1', "'", 's', '##s', 'not', 'do', 'n', '##n']);
const bertPieces = { pre_tokenizer: { type: 'BertPreTokenizer' }, normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true } };
for (const cleanup of [true, false]) {
  add('model WordPiece ' + cleanup, { ...bertPieces, model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 10, vocab: wordVocab }, decoder: { type: 'WordPiece', prefix: '##', cleanup },
    added_tokens: [0, 1, 2, 3].map((i) => added(i, Object.keys(wordVocab)[i], { special: true })) });
}
add('model WordLevel', { model: { type: 'WordLevel', vocab: wordVocab, unk_token: '[UNK]' }, pre_tokenizer: { type: 'Whitespace' } });

// Decoders, over a vocabulary of awkward tokens.
const awkward = vocab(['a', ' a', '▁a', '▁', '▁▁b', '##c', 'd</w>', '</w>', '<0x41>', '<0xE4>', '<0xBD>', '<0xA0>', '<0xFF>', '<0x0a>', '|', '<pad>', ' .', ' do not', " n't", 'Ġx', 'Ã©', 'Ã', 'é', '  ', 'aa', '[UNK]', "'s", '.', '<0x4>', '▁.▁', 'b']);
const decoders = [byteLevel, { type: 'WordPiece', prefix: '##', cleanup: true }, { type: 'WordPiece', prefix: '##', cleanup: false }, metaspace, { ...metaspace, prepend_scheme: 'never', add_prefix_space: false },
  { type: 'BPEDecoder', suffix: '</w>' }, { type: 'CTC', pad_token: '<pad>', word_delimiter_token: '|', cleanup: true }, { type: 'CTC', pad_token: '<pad>', word_delimiter_token: '|', cleanup: false },
  { type: 'Fuse' }, { type: 'ByteFallback' }, { type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'Replace', pattern: { Regex: '[▁a]+' }, content: '_' },
  { type: 'Strip', content: ' ', start: 1, stop: 0 }, { type: 'Strip', content: 'a', start: 1, stop: 0 },
  { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] },
  { type: 'Sequence', decoders: [{ type: 'Fuse' }, { type: 'Replace', pattern: { String: '▁a' }, content: 'X' }, { type: 'Strip', content: ' ', start: 2, stop: 0 }] },
  { type: 'Sequence', decoders: [{ type: 'Fuse' }, { type: 'Replace', pattern: { Regex: 'a+' }, content: '' }] },
  { type: 'Sequence', decoders: [{ type: 'ByteFallback' }, metaspace] }, { type: 'Sequence', decoders: [{ type: 'Fuse' }, metaspace] }, { type: 'Sequence', decoders: [] }, null];
decoders.forEach((decoder, i) => add(`decoder ${i} ${decoder?.type}`, { decoder, model: { type: 'WordLevel', vocab: awkward, unk_token: '[UNK]' },
  added_tokens: [added(15, '<pad>', { special: true })], pre_tokenizer: { type: 'WhitespaceSplit' } }));

// Post-processors.
const cls = { '[CLS]': { id: '[CLS]', ids: [2], tokens: ['[CLS]'] }, '[SEP]': { id: '[SEP]', ids: [3, 0], tokens: ['[SEP]', '[PAD]'] } };
const special = (id) => ({ SpecialToken: { id, type_id: 0 } });
const sequence = { Sequence: { id: 'A', type_id: 0 } };
const pair = [sequence, { Sequence: { id: 'B', type_id: 1 } }];
const wordLevel = { model: { type: 'WordLevel', vocab: wordVocab, unk_token: '[UNK]' }, pre_tokenizer: byteLevel };
for (const [name, post_processor] of [
  ['TemplateProcessing', { type: 'TemplateProcessing', single: [special('[CLS]'), sequence, special('[SEP]')], pair, special_tokens: cls }],
  ['TemplateProcessing bare', { type: 'TemplateProcessing', single: [sequence], pair, special_tokens: {} }],
  ['BertProcessing', { type: 'BertProcessing', sep: ['[SEP]', 3], cls: ['[CLS]', 2] }],
  ['RobertaProcessing', { type: 'RobertaProcessing', sep: ['[SEP]', 3], cls: ['[CLS]', 2], trim_offsets: true, add_prefix_space: true }],
  ['RobertaProcessing no trim', { type: 'RobertaProcessing', sep: ['[SEP]', 3], cls: ['[CLS]', 2], trim_offsets: false, add_prefix_space: false }],
  ['Sequence', { type: 'Sequence', processors: [{ ...byteLevel, add_prefix_space: false }, { type: 'TemplateProcessing', single: [special('[CLS]'), sequence], pair, special_tokens: cls }] }],
]) add('post_processor ' + name, { ...wordLevel, post_processor });

// Added tokens.
const flags = [{}, { lstrip: true }, { rstrip: true }, { single_word: true }, { normalized: true }, { lstrip: true, rstrip: true, normalized: true }, { single_word: true, lstrip: true }, { special: true, rstrip: true }];
flags.forEach((f, i) => add('added tokens ' + i, { normalizer: { type: 'Lowercase' },
  added_tokens: [added(1, 'The', f), added(2, '<|x|>', f), added(3, '<|', f), added(4, 'é', { ...f, special: true }), added(5, ' ', { ...f, lstrip: false, rstrip: false })] }));

const words = ['the', 'The', 'a', 'ab', 'abc', 'abab', 'aaaa', 'b', 'e\u0301é', 'é', 'É', 'x', 'xyz', '你好', '日本', 'テスト', 'ー', 'hello', 'World', "don't", "it's",
  '12345', '٣', '½', 'ǅ', 'ß', 'İ', '한국어', 'العربية', '<|x|>', '<|', 'mid', 'é', '-', '--', ',', '.', '!', '_', '$', '▁', '▁▁', 'Ġ', '<unk>', '[CLS]', '\u0301', 'a\u0308\u0323', '\u1100\u1161\u11a8', '\ufb01', '😀', '👩‍👧', 'A\u200d', '①', "'s", '##a', '</w>'];
const spaces = [' ', ' ', ' ', '  ', '   ', '\t', '\n', '\r\n', '\u00a0', '\u3000', '\u0085', '\u180e', '\u200b', '\0', '\u001c', '\ufeff', '\ufffd'];
const codePoint = () => {
  const [low, high] = pick([[0x20, 0x7e], [0xa0, 0x24f], [0x300, 0x5ff], [0x600, 0x1fff], [0x2000, 0x33ff], [0x4e00, 0xd7ff], [0xf900, 0xffff], [0x10000, 0x1ffff], [0, 0x10ffff]]);
  const c = low + below(high - low + 1);
  return c >= 0xd800 && c < 0xe000 ? 'y' : String.fromCodePoint(c);
};
const text = () => {
  let out = '';
  for (let n = below(9); n >= 0; --n) out += below(8) === 0 ? codePoint() : below(3) === 0 ? pick(spaces) : pick(words) + (below(2) ? ' ' : '');
  return out;
};

for (const [name, description] of cases) {
  let tokenizer;
  try {
    tokenizer = T.Tokenizer.fromString(JSON.stringify(description));
  } catch (error) {
    console.error(name + ': ' + error.message);
    continue;
  }
  console.log(JSON.stringify({ name, tokenizer: JSON.stringify(description) }));
  const limit = tokenizer.getVocabSize(true);
  for (let i = 0; i < count; ++i) {
    const s = text();
    try {
      const plain = await tokenizer.encode(s, null, { addSpecialTokens: false });
      const special = await tokenizer.encode(s, null, { addSpecialTokens: true });
      const ids = [];
      for (let k = below(9); k > 0; --k) ids.push(below(limit));
      const line = { text: s, ids: plain.getIds(), ids_special: special.getIds(), tokens: plain.getTokens(), offsets: special.getOffsets(),
        decoded: await tokenizer.decode(special.getIds(), false), decoded_skip: await tokenizer.decode(special.getIds(), true) };
      console.log(JSON.stringify(line));
      console.log(JSON.stringify({ decode_ids: ids, decoded: await tokenizer.decode(ids, false), decoded_skip: await tokenizer.decode(ids, true) }));
    } catch (error) {
      console.error(name + ': ' + JSON.stringify(s) + ': ' + error.message);
    }
  }
}

#include "text/decoder/text_stages.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace lamina::text {

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  if (!from.empty()) {
    for (size_t found = text.find(from); found != std::string_view::npos; found = text.find(from)) {
      out.append(text.substr(0, found)).append(to);
      text.remove_prefix(found + from.size());
    }
  }
  out += text;
  return out;
}

std::string CleanUpEnglish(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) {
    if (text.find(from) != std::string::npos) text = ReplaceAll(text, from, to);
  }
  return text;
}

Status FuseStage::Feed(std::string_view part, bool, bool) {
  const bool begins = !begun_;
  begun_ = true;
  return next_.Feed(part, begins, false);
}

Status FuseStage::Finish() {
  LAMINA_RETURN_IF_ERROR(next_.Feed({}, !begun_, true));
  begun_ = false;
  return next_.Finish();
}

Status StripStage::Feed(std::string_view part, bool begins, bool ends) {
  if (begins) {
    may_strip_ = start_;
    trailing_held_ = 0;
    passed_begin_ = false;
  }
  while (may_strip_ > 0 && !part.empty()) {
    if (!part.starts_with(content_)) {
      may_strip_ = 0;
      break;
    }
    part.remove_prefix(content_.size());
    --may_strip_;
  }
  std::string text;
  const auto release = [&](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) text += content_;
    trailing_held_ -= count;
  };
  if (stop_ == 0) {
    text = part;
  } else {
    // The last `stop` characters of the token go if they are `content`: hold that many back.
    while (!part.empty()) {
      const std::string_view c = part.substr(0, Utf8Length(part[0]));
      part.remove_prefix(c.size());
      if (c == content_) {
        if (++trailing_held_ > stop_) release(1);
      } else {
        release(trailing_held_);
        text += c;
      }
    }
  }
  const bool first = !passed_begin_;
  if (text.empty() && !ends && first) return {};
  passed_begin_ = true;
  return next_.Feed(text, first, ends);
}

Status ReplaceStage::Feed(std::string_view part, bool begins, bool ends) {
  if (begins) {
    held_.clear();
    passed_begin_ = false;
  }
  held_ += part;
  const std::string* literal = pattern_.literal();
  if (!ends && literal == nullptr) return {};
  std::string text;
  size_t done = 0;
  matcher_.Start(held_);
  while (true) {
    size_t begin = 0;
    size_t end = 0;
    LAMINA_ASSIGN_OR_RETURN(const bool found, matcher_.Next(begin, end));
    if (!found) break;
    text.append(held_, done, begin - done).append(content_);
    done = end;
  }
  // What might become a match with the next part stays.
  size_t keep = 0;
  if (!ends) {
    const std::string_view rest = std::string_view(held_).substr(done);
    for (keep = std::min(literal->size() - 1, rest.size()); keep > 0; --keep) {
      if (std::string_view(*literal).starts_with(rest.substr(rest.size() - keep))) break;
    }
  }
  text.append(held_, done, held_.size() - done - keep);
  held_.erase(0, held_.size() - keep);
  const bool first = !passed_begin_;
  if (text.empty() && !ends && first) return {};
  passed_begin_ = true;
  return next_.Feed(text, first, ends);
}

Status MetaspaceStage::Feed(std::string_view part, bool begins, bool ends) {
  const bool drop = drop_in_first_ && in_first_;
  if (ends) in_first_ = false;
  return next_.Feed(ReplaceAll(part, replacement_, drop ? "" : " "), begins, ends);
}

Status MetaspaceStage::Finish() {
  in_first_ = true;
  return next_.Finish();
}

Status WordPieceStage::Token(std::string_view token) {
  std::string text;
  if (std::exchange(first_, false)) {
    text = token;
  } else if (token.starts_with(prefix_)) {
    text = token.substr(prefix_.size());
  } else {
    text.append(" ").append(token);
  }
  return Pass(cleanup_ ? CleanUpEnglish(std::move(text)) : text);
}

Status WordPieceStage::Finish() {
  first_ = true;
  return next().Finish();
}

Status BpeSuffixStage::PassReplaced(std::string_view token, std::string_view replacement) {
  if (suffix_.empty()) return Pass(token);
  return Pass(ReplaceAll(token, suffix_, replacement));
}

Status BpeSuffixStage::Token(std::string_view token) {
  if (holding_) LAMINA_RETURN_IF_ERROR(PassReplaced(held_, " "));
  held_ = token;
  holding_ = true;
  return {};
}

Status BpeSuffixStage::Finish() {
  if (std::exchange(holding_, false)) LAMINA_RETURN_IF_ERROR(PassReplaced(held_, ""));
  return next().Finish();
}

Status CtcStage::Token(std::string_view token) {
  if (any_ && token == previous_) return {};
  any_ = true;
  previous_ = token;
  std::string text = ReplaceAll(token, pad_, "");
  if (cleanup_) text = ReplaceAll(CleanUpEnglish(std::move(text)), word_delimiter_, " ");
  return text.empty() ? Status() : Pass(text);
}

Status CtcStage::Finish() {
  any_ = false;
  return next().Finish();
}

Status JoinStage::Token(std::string_view token) {
  if (std::exchange(first_, false)) return Pass(token);
  return Pass(" " + std::string(token));
}

Status JoinStage::Finish() {
  first_ = true;
  return next().Finish();
}

}  // namespace lamina::text

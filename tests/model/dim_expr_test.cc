#include "model/dim_expr.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/cpu_time.h"

namespace lamina {
namespace {

const DimExpr kBatch = DimExpr::Symbol("batch");
const DimExpr kPast = DimExpr::Symbol("past");
const DimExpr kSeq = DimExpr::Symbol("seq");

int64_t Value(const DimExpr& expr, const SymbolValues& values) {
  Result<int64_t> value = expr.Evaluate(values);
  EXPECT_TRUE(value.ok()) << expr.ToString() << ": " << value.status().ToString();
  return value.ok() ? *value : -1;
}

TEST(DimExpr, ConstantsFold) {
  EXPECT_EQ(DimExpr(), DimExpr(0));
  EXPECT_EQ((DimExpr(3) + DimExpr(4) * DimExpr(5)).constant(), 23);
  EXPECT_EQ(DimExpr::FloorDiv(-7, 2).constant(), -4);
  EXPECT_EQ(DimExpr::CeilDiv(7, 2).constant(), 4);
  EXPECT_EQ(DimExpr::Mod(-7, 3).constant(), 2);
  EXPECT_EQ(DimExpr::Max(3, 9).constant(), 9);
  EXPECT_EQ((kBatch - kBatch).constant(), 0);
  EXPECT_TRUE((kBatch * DimExpr(0)).Is(0));
}

TEST(DimExpr, EqualExpressionsAreEqual) {
  EXPECT_EQ(kPast + kSeq, kSeq + kPast);
  EXPECT_EQ(kBatch * (kPast + kSeq), kSeq * kBatch + kBatch * kPast);
  EXPECT_EQ((kPast + kSeq) - kPast, kSeq);
  EXPECT_EQ(DimExpr::FloorDiv(kBatch * kSeq * 384, kBatch * kSeq), DimExpr(384));
  EXPECT_EQ(DimExpr::FloorDiv(kBatch * (kPast + kSeq) * 6, (kPast + kSeq) * 3), kBatch * 2);
  EXPECT_EQ(DimExpr::FloorDiv(kBatch * kSeq * 4, kBatch * 6), DimExpr::FloorDiv(kSeq * 2, 3));
  EXPECT_EQ(DimExpr::FloorDiv(kSeq * 8 + 3, 4), kSeq * 2);
  EXPECT_EQ(DimExpr::Mod(kSeq * 8 + 3, 4), DimExpr(3));
  EXPECT_EQ(DimExpr::FloorDiv(DimExpr::FloorDiv(kSeq + 1, 2) + 1, 2), DimExpr::FloorDiv(kSeq + 3, 4));
  EXPECT_EQ(DimExpr::Max(kSeq, kSeq + 1), kSeq + 1);
  EXPECT_EQ(DimExpr::Max(DimExpr::Max(kSeq, kPast), kBatch), DimExpr::Max(kBatch, DimExpr::Max(kPast, kSeq)));
  EXPECT_EQ(DimExpr::Max(0, kSeq - kPast + kPast), kSeq);
  EXPECT_EQ(DimExpr::Min(kSeq, 0), DimExpr(0));
  EXPECT_NE(DimExpr::Min(kSeq, 1), DimExpr(1));
  EXPECT_NE(kPast, kSeq);
}

TEST(DimExpr, SymbolsAndSubstitution) {
  EXPECT_EQ(kSeq.symbol(), "seq");
  EXPECT_EQ((kSeq + 1).symbol(), "");
  EXPECT_EQ((DimExpr::Max(kSeq, kPast * kBatch)).Symbols(),
            (std::vector<std::string>{"batch", "past", "seq"}));
  const DimExpr expr = DimExpr::FloorDiv(kPast + kSeq, 2) * kBatch;
  EXPECT_EQ(expr.Substitute({{"past", DimExpr(0)}, {"seq", kBatch * 2}}), kBatch * kBatch);
  EXPECT_EQ(expr.Substitute({}), expr);
}

TEST(DimExpr, PrintsAsExportersWrite) {
  EXPECT_EQ((kSeq + kPast).ToString(), "past + seq");
  EXPECT_EQ((kSeq * 2 - 1).ToString(), "2*seq - 1");
  EXPECT_EQ((DimExpr(1) - kSeq).ToString(), "-seq + 1");
  EXPECT_EQ((kSeq * kSeq * kBatch).ToString(), "batch*seq**2");
  EXPECT_EQ(DimExpr::FloorDiv(kSeq + 3, 4).ToString(), "(seq + 3)//4");
  EXPECT_EQ((DimExpr::FloorDiv(kSeq + 3, 4) * 2).ToString(), "2*((seq + 3)//4)");
  EXPECT_EQ(DimExpr::Mod(kSeq, 8).ToString(), "seq % 8");
  EXPECT_EQ(DimExpr::Max(kSeq, 1).ToString(), "Max(1, seq)");
  EXPECT_EQ(DimExpr::Symbol("/model/NonZero.dim0").ToString(), "/model/NonZero.dim0");
  EXPECT_EQ((DimExpr::Symbol("batch size") + 1).ToString(), "'batch size' + 1");
  EXPECT_EQ(DimExpr::Symbol("a + b").ToString(), "'a + b'");
  EXPECT_EQ((SymbolicShape{{kBatch, kPast + kSeq, 64}}).ToString(), "[batch,past + seq,64]");
}

TEST(DimExpr, ReadsDimParams) {
  const DimExpr s0 = DimExpr::Symbol("s0");
  const DimExpr s1 = DimExpr::Symbol("s1");
  const struct {
    const char* text;
    DimExpr expected;
  } cases[] = {
      {"batch", kBatch},
      {"s0 + s1", s0 + s1},
      {"s0+s1", s0 + s1},
      {"past+1", kPast + 1},
      {"2*s0 - 1", s0 * 2 - 1},
      {"-s0 + s1", s1 - s0},
      {"Max(1, s0)", DimExpr::Max(1, s0)},
      {"Min(s0, s1, 4)", DimExpr::Min(DimExpr::Min(s0, s1), 4)},
      {"floor(s1/2)", DimExpr::FloorDiv(s1, 2)},
      {"floor(s1/2 + 1/2)", DimExpr::FloorDiv(s1 + 1, 2)},
      {"floor(s1/4 - 1/2) + 1", DimExpr::FloorDiv(s1 + 2, 4)},
      {"ceiling(s1/2)", DimExpr::CeilDiv(s1, 2)},
      {"s0**2", s0 * s0},
      {"Mod(s1, 8)", DimExpr::Mod(s1, 8)},
      {"Mod(s1,8)", DimExpr::Mod(s1, 8)},
      {"s1 % 8", DimExpr::Mod(s1, 8)},
      {"(s0 + 3)//4", DimExpr::FloorDiv(s0 + 3, 4)},
      {"((s0 + 3)//4)", DimExpr::FloorDiv(s0 + 3, 4)},
      {"2*s0//4", DimExpr::FloorDiv(s0, 2)},
      {"FloorDiv(s0 + 3, 4)", DimExpr::FloorDiv(s0 + 3, 4)},
      {"CeilToInt(IntTrueDiv(s0, 2))", DimExpr::CeilDiv(s0, 2)},
      {"PythonMod(s0, 3)", DimExpr::Mod(s0, 3)},
      {"12", DimExpr(12)},
      {"'a + b'", DimExpr::Symbol("a + b")},
      {"'it\\'s'", DimExpr::Symbol("it's")},
      // Names, not expressions.
      {"batch-size", DimExpr::Symbol("batch-size")},
      {"a/b", DimExpr::Symbol("a/b")},
      {"batch size", DimExpr::Symbol("batch size")},
      {"?", DimExpr::Symbol("?")},
      {"-1", DimExpr::Symbol("-1")},
      {"None", DimExpr::Symbol("None")},
      {"1.5*s0", DimExpr::Symbol("1.5*s0")},
      {"s0 +", DimExpr::Symbol("s0 +")},
      {"Where(s0, 1, 2)", DimExpr::Symbol("Where(s0, 1, 2)")},
      {"floor(s0", DimExpr::Symbol("floor(s0")},
      {"Max()", DimExpr::Symbol("Max()")},
      {"99999999999999999999", DimExpr::Symbol("99999999999999999999")},
      {"4611686018427387904*4", DimExpr::Symbol("4611686018427387904*4")},
      {"", DimExpr::Symbol("")},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(DimExpr::FromDimParam(text), expected)
        << text << " was read as " << DimExpr::FromDimParam(text).ToString();
  }
}

std::string Repeat(std::string_view part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text.append(part);
  return text;
}

TEST(DimExpr, HostileTextsAreBounded) {
  const double start = testing::CpuSeconds();
  std::vector<std::string> texts = {
      Repeat("(", 1000000),
      Repeat("(", 2000) + "a" + Repeat(")", 2000),
      Repeat("floor(", 600) + "a" + Repeat(")", 600),
      Repeat("a+", 2000) + "a",
      Repeat("(a+b+c+d+e+f+g+h+i+j)*", 180) + "a",
      Repeat("(a+b+1)**16*", 300) + "a",
      Repeat("Max(a,b+", 60) + "c" + Repeat(")", 60),
      Repeat("a**16*", 600) + "a",
      Repeat("'", 4095),
      std::string(1000, '\0'),
  };
  std::string many_symbols;
  for (int i = 0; i < 700; ++i) many_symbols += fmt::format("s{}+", i);
  texts.push_back(many_symbols + "1");
  std::string nested = "s";
  for (int i = 0; i < 40; ++i) nested = fmt::format("Max({}//3,{}-t)", nested, i);
  texts.push_back(nested);
  for (const std::string& text : texts) {
    const DimExpr expr = DimExpr::FromDimParam(text);
    EXPECT_EQ(DimExpr::FromDimParam(expr.ToString()), expr) << text.substr(0, 60);
  }
  // 100 times what it takes; without bounds it would be forever.
  EXPECT_LT(testing::CpuSeconds() - start, 10);
}

TEST(DimExpr, GrowthEndsUnknown) {
  DimExpr expr = kSeq;
  for (int i = 0; i < 200; ++i) {
    expr = DimExpr::Max(expr + DimExpr::FloorDiv(expr, 3), DimExpr::Symbol(fmt::format("s{}", i)));
  }
  EXPECT_FALSE(expr.known());
  EXPECT_FALSE((expr - expr).known());
  EXPECT_EQ(expr.Evaluate({{"seq", 1}}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(expr.Bounds({}), (DimBounds{kUnboundedBelow, kUnboundedDim}));

  DimExpr power = kSeq;
  for (int i = 0; i < 40; ++i) power = power * power;
  EXPECT_FALSE(power.known());
  const DimExpr big(int64_t{1} << 62);
  EXPECT_FALSE((big * 4).known());
  EXPECT_FALSE((big + big).known());
}

TEST(DimExpr, EvaluateErrors) {
  EXPECT_EQ((kSeq + kPast).Evaluate({{"seq", 1}}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT((kSeq + kPast).Evaluate({{"seq", 1}}).status().message(), ::testing::HasSubstr("past"));
  EXPECT_FALSE(DimExpr::FloorDiv(kSeq, kPast).Evaluate({{"seq", 1}, {"past", 0}}).ok());
  EXPECT_FALSE(DimExpr::Mod(kSeq, 0).Evaluate({{"seq", 1}}).ok());
  const int64_t large = int64_t{1} << 40;
  EXPECT_FALSE((kSeq * kPast).Evaluate({{"seq", large}, {"past", large}}).ok());
  EXPECT_EQ(Value(kSeq * kPast - kSeq * kPast + kSeq, {{"seq", large}}), large);
  // The sum fits although its terms do not.
  EXPECT_EQ(Value(kSeq * kSeq - kSeq * kPast, {{"seq", large}, {"past", large}}), 0);
  EXPECT_FALSE((SymbolicShape{{kSeq - 5}}).Evaluate({{"seq", 1}}).ok());
  EXPECT_FALSE((SymbolicShape{std::vector<DimExpr>(Shape::kMaxRank + 1, kSeq)}).Evaluate({{"seq", 1}}).ok());
  EXPECT_EQ(*(SymbolicShape{{kSeq, 3}}).Evaluate({{"seq", 1}}), (Shape{1, 3}));
}

TEST(DimExpr, BoundsOfSumsAreExact) {
  const SymbolBounds bounds = {{"batch", {1, 4}}, {"past", {0, 100}}, {"seq", {1, 28}}};
  EXPECT_EQ((kPast + kSeq).Bounds(bounds), (DimBounds{1, 128}));
  EXPECT_EQ((kPast * 2 + kSeq * 3 + 5).Bounds(bounds), (DimBounds{8, 289}));
  EXPECT_EQ((DimExpr(200) - kPast).Bounds(bounds), (DimBounds{100, 200}));
  EXPECT_EQ((kBatch * kSeq).Bounds(bounds), (DimBounds{1, 112}));
  EXPECT_EQ(DimExpr::FloorDiv(kPast + 7, 8).Bounds(bounds), (DimBounds{0, 13}));
  EXPECT_EQ(DimExpr::Mod(kPast, 8).Bounds(bounds), (DimBounds{0, 7}));
  EXPECT_EQ(DimExpr::Max(kPast, 9).Bounds(bounds), (DimBounds{9, 100}));
  EXPECT_EQ((kPast + kSeq).Bounds({}), (DimBounds{0, kUnboundedDim}));
  EXPECT_EQ((kPast - kSeq).Bounds({}), (DimBounds{kUnboundedBelow, kUnboundedDim}));
  EXPECT_EQ((kSeq * kPast).Bounds({{"past", {0, 0}}}), (DimBounds{0, 0}));
}

// A tree evaluated directly, to compare with the canonical form.
struct Tree {
  enum Op { kConstant, kSymbol, kAdd, kSubtract, kMultiply, kFloorDiv, kCeilDiv, kMod, kMin, kMax };
  Op op = kConstant;
  int64_t value = 0;  // the constant, or which symbol
  std::unique_ptr<Tree> left;
  std::unique_ptr<Tree> right;
};
constexpr std::array<const char*, 4> kSymbols = {"a", "b", "batch size", "n.dim0"};

std::unique_ptr<Tree> RandomTree(std::mt19937& random, int depth) {
  auto tree = std::make_unique<Tree>();
  if (depth == 0 || random() % 6 == 0) {
    tree->op = random() % 2 == 0 ? Tree::kConstant : Tree::kSymbol;
    tree->value = tree->op == Tree::kConstant ? static_cast<int64_t>(random() % 12) - 3
                                              : static_cast<int64_t>(random() % kSymbols.size());
    return tree;
  }
  tree->op = static_cast<Tree::Op>(Tree::kAdd + random() % 8);
  tree->left = RandomTree(random, depth - 1);
  tree->right = RandomTree(random, depth - 1);
  return tree;
}

DimExpr Build(const Tree& tree, bool swapped) {
  if (tree.op == Tree::kConstant) return tree.value;
  if (tree.op == Tree::kSymbol) return DimExpr::Symbol(kSymbols[static_cast<size_t>(tree.value)]);
  const DimExpr a = Build(*tree.left, swapped);
  const DimExpr b = Build(*tree.right, swapped);
  switch (tree.op) {
    case Tree::kAdd:
      return swapped ? b + a : a + b;
    case Tree::kSubtract:
      return swapped ? b * DimExpr(-1) + a : a - b;
    case Tree::kMultiply:
      return swapped ? b * a : a * b;
    case Tree::kFloorDiv:
      return DimExpr::FloorDiv(a, b);
    case Tree::kCeilDiv:
      return DimExpr::CeilDiv(a, b);
    case Tree::kMod:
      return DimExpr::Mod(a, b);
    case Tree::kMin:
      return swapped ? DimExpr::Min(b, a) : DimExpr::Min(a, b);
    default:
      return swapped ? DimExpr::Max(b, a) : DimExpr::Max(a, b);
  }
}

// Nothing where a division is by zero.
std::optional<int64_t> NaiveValue(const Tree& tree, const SymbolValues& values) {
  if (tree.op == Tree::kConstant) return tree.value;
  if (tree.op == Tree::kSymbol) return values.find(kSymbols[static_cast<size_t>(tree.value)])->second;
  const std::optional<int64_t> a = NaiveValue(*tree.left, values);
  const std::optional<int64_t> b = NaiveValue(*tree.right, values);
  if (!a || !b) return std::nullopt;
  const auto floor_div = [](int64_t x, int64_t y) {
    return x / y - ((x % y != 0 && (x % y < 0) != (y < 0)) ? 1 : 0);
  };
  switch (tree.op) {
    case Tree::kAdd:
      return *a + *b;
    case Tree::kSubtract:
      return *a - *b;
    case Tree::kMultiply:
      return *a * *b;
    case Tree::kMin:
      return std::min(*a, *b);
    case Tree::kMax:
      return std::max(*a, *b);
    default:
      break;
  }
  if (*b == 0) return std::nullopt;
  if (tree.op == Tree::kFloorDiv) return floor_div(*a, *b);
  if (tree.op == Tree::kCeilDiv) return -floor_div(-*a, *b);
  return *a - floor_div(*a, *b) * *b;
}

TEST(DimExpr, RandomExpressionsKeepTheirValueAndBounds) {
  std::mt19937 random(20240817);
  int compared = 0;
  for (int round = 0; round < 6000; ++round) {
    const std::unique_ptr<Tree> tree = RandomTree(random, 1 + static_cast<int>(random() % 4));
    const DimExpr expr = Build(*tree, false);
    const DimExpr other = Build(*tree, true);
    ASSERT_EQ(expr, other) << expr.ToString() << " and " << other.ToString();
    ASSERT_EQ(DimExpr::FromDimParam(expr.ToString()).ToString(), expr.ToString());
    if (!expr.known()) continue;
    if (expr.constant().value_or(0) >= 0) {
      ASSERT_EQ(DimExpr::FromDimParam(expr.ToString()), expr) << expr.ToString();
    }
    SymbolBounds bounds;
    for (const char* name : kSymbols) {
      const auto low = static_cast<int64_t>(random() % 4);
      bounds[name] = {low, low + static_cast<int64_t>(random() % 9)};
    }
    const DimBounds interval = expr.Bounds(bounds);
    const DimBounds unbounded = expr.Bounds({});
    for (int sample = 0; sample < 12; ++sample) {
      SymbolValues values;
      std::map<std::string, DimExpr, std::less<>> constants;
      for (const auto& [name, bound] : bounds) {
        values[name] = bound.min + static_cast<int64_t>(random()) % (bound.max - bound.min + 1);
        constants[name] = values[name];
      }
      const std::optional<int64_t> expected = NaiveValue(*tree, values);
      if (!expected) continue;
      ++compared;
      ASSERT_EQ(Value(expr, values), *expected) << expr.ToString();
      ASSERT_EQ(expr.Substitute(constants).constant(), *expected) << expr.ToString();
      ASSERT_LE(interval.min, *expected) << expr.ToString();
      ASSERT_GE(interval.max, *expected) << expr.ToString();
      ASSERT_LE(unbounded.min, *expected) << expr.ToString();
      ASSERT_GE(unbounded.max, *expected) << expr.ToString();
    }
  }
  EXPECT_GT(compared, 30000);
}

TEST(DimExpr, SymbolicShapes) {
  const SymbolicShape shape{{kBatch, 3, kSeq}};
  EXPECT_EQ(shape.num_elements(), kBatch * kSeq * 3);
  EXPECT_FALSE(shape.constant());
  EXPECT_EQ((SymbolicShape{{2, 3}}).constant(), (Shape{2, 3}));
  ShapeBounds bounds(Shape{2, 3});
  EXPECT_TRUE(bounds.bounded());
  EXPECT_EQ(bounds.Max(), (Shape{2, 3}));
  bounds.Append({0, kUnboundedDim});
  EXPECT_FALSE(bounds.bounded());
}

}  // namespace
}  // namespace lamina

// einsum as dot_general, left to right.
//
//   "bhqd,bhkd->bhqk"   one product: batch b and h, contract d
//   "ij,jk,kl->il"      two products
// Each operand is first brought to distinct labels: a repeated one takes the diagonal (mask and sum), one that occurs nowhere else is summed
// out at once. An ellipsis stands for as many axes as are left, aligned at their ends; these broadcast, so an extent 1 that meets a larger one
// is dropped from its operand. A pair without a label to sum over is a broadcast product.

#include <cctype>
#include <map>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

using Results = std::vector<Value*>;
using Labels = std::vector<int>;  // letters as their code, axes of an ellipsis as -1 (last), -2, ...

struct Term {
  Value* value;
  Labels labels;
};

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

/// The labels of one term of the equation. `ellipsis` is how many axes `...` stands for.
Labels parse_labels(const std::string& text, int ellipsis) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "...") == 0) {
      for (int axis = ellipsis; axis > 0; --axis) labels.push_back(-axis);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      labels.push_back(text[i]);
    } else {
      throw RuleError{"unsupported-attribute",
                      "`equation` has \"" + text.substr(i, 1) + "\" in \"" + text + "\", letters and ... are known"};
    }
  }
  return labels;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

/// One axis per label: the diagonal over repeated ones.
void take_diagonals(Builder& b, Term& term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    for (size_t j = i + 1; j < term.labels.size();) {
      if (term.labels[i] != term.labels[j]) {
        ++j;
        continue;
      }
      const Shape shape = rules::shape_of(term.value);
      Value* equal =
          b.binary(Op::eq_, b.iota(DType::i64, shape, static_cast<int64_t>(i)), b.iota(DType::i64, shape, static_cast<int64_t>(j)));
      Value* masked = b.select(equal, term.value, b.full_like(term.value, 0));
      term.value = b.reduce(Op::reduce_sum_, masked, {static_cast<int64_t>(j)});
      term.labels.erase(term.labels.begin() + static_cast<int64_t>(j));
    }
  }
}

/// Removes axes of extent 1 that meet another extent in `extents`.
void drop_broadcast_axes(Builder& b, Term& term, const std::map<int, int64_t>& extents) {
  Shape shape;
  Labels labels;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    const int64_t extent = rules::extent_of(term.value, static_cast<int64_t>(i));
    if (extent == 1 && extents.at(term.labels[i]) != 1) continue;
    shape.push_back(extent);
    labels.push_back(term.labels[i]);
  }
  term = {b.reshape(term.value, shape), labels};
}

void sum_unneeded(Builder& b, Term& term, const Labels& needed) {
  std::vector<int64_t> axes;
  Labels kept;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (has(needed, term.labels[i])) kept.push_back(term.labels[i]);
    else axes.push_back(static_cast<int64_t>(i));
  }
  term = {b.reduce(Op::reduce_sum_, term.value, axes), kept};
}

Term multiply(Builder& b, const Term& left, const Term& right, const Labels& needed) {
  std::vector<int64_t> left_batch, right_batch, left_contract, right_contract;
  Labels batch, left_free, right_free;
  for (size_t i = 0; i < left.labels.size(); ++i) {
    const int label = left.labels[i];
    const auto at = std::find(right.labels.begin(), right.labels.end(), label);
    if (at == right.labels.end()) {
      left_free.push_back(label);
      continue;
    }
    const bool kept = has(needed, label);
    (kept ? left_batch : left_contract).push_back(static_cast<int64_t>(i));
    (kept ? right_batch : right_contract).push_back(at - right.labels.begin());
    if (kept) batch.push_back(label);
  }
  for (int label : right.labels) {
    if (!has(left.labels, label)) right_free.push_back(label);
  }
  Labels labels = batch;
  labels.insert(labels.end(), left_free.begin(), left_free.end());
  labels.insert(labels.end(), right_free.begin(), right_free.end());
  if (!left_contract.empty()) {
    return {b.emit(Op::dot_general_, {left.value, right.value},
                   {{"lhs_batch", left_batch},
                    {"rhs_batch", right_batch},
                    {"lhs_contract", left_contract},
                    {"rhs_contract", right_contract},
                    {"dtype", rules::dtype_of(left.value)}}),
            labels};
  }
  Shape shape;
  auto extent_in = [](const Term& term, int label) {
    const auto at = std::find(term.labels.begin(), term.labels.end(), label);
    return at == term.labels.end() ? int64_t{-1} : rules::extent_of(term.value, at - term.labels.begin());
  };
  for (int label : labels) shape.push_back(std::max(extent_in(left, label), extent_in(right, label)));
  auto spread = [&](const Term& term) {
    // Into the order of the result, then broadcast.
    std::vector<int64_t> permutation, dims;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto at = std::find(term.labels.begin(), term.labels.end(), labels[i]);
      if (at == term.labels.end()) continue;
      permutation.push_back(at - term.labels.begin());
      dims.push_back(static_cast<int64_t>(i));
    }
    return b.broadcast_in_dim(b.transpose(term.value, permutation), shape, dims);
  };
  return {b.mul(spread(left), spread(right)), labels};
}

}  // namespace

Results decompose_einsum(Builder& b, const Node& node) {
  std::string equation = node.attrs.get_string("equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const size_t arrow = equation.find("->");
  const std::vector<std::string> inputs = split(equation.substr(0, arrow), ',');
  if (inputs.size() != node.operands.size()) {
    throw RuleError{"type-error",
                    "`equation` names " + std::to_string(inputs.size()) + " operands, there are " + std::to_string(node.operands.size())};
  }
  int ellipsis = 0;
  std::vector<Term> terms;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value* value = node.operands[i];
    const bool open = inputs[i].find("...") != std::string::npos;
    const int letters = static_cast<int>(inputs[i].size()) - (open ? 3 : 0);
    const int axes = value->type.rank() - letters;
    if (axes < 0 || (!open && axes != 0)) {
      throw RuleError{"type-error", "\"" + inputs[i] + "\" in `equation` does not fit operand " + std::to_string(i) + " of type `" +
                                        to_string(value->type) + "`"};
    }
    ellipsis = std::max(ellipsis, axes);
    terms.push_back({value, parse_labels(inputs[i], axes)});
  }
  Labels output;
  if (arrow != std::string::npos) {
    output = parse_labels(equation.substr(arrow + 2), ellipsis);
  } else {
    // Implicit: the ellipsis, then the letters that occur once, in alphabetical order.
    std::map<int, int> times;
    for (const Term& term : terms) {
      for (int label : term.labels) ++times[label];
    }
    for (int axis = ellipsis; axis > 0; --axis) output.push_back(-axis);
    for (const auto& [label, count] : times) {
      if (label > 0 && count == 1) output.push_back(label);
    }
  }
  std::map<int, int64_t> extents;
  for (const Term& term : terms) {
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const int64_t extent = rules::extent_of(term.value, static_cast<int64_t>(i));
      int64_t& common = extents.try_emplace(term.labels[i], extent).first->second;
      if (common == 1) common = extent;
      else if (extent != 1 && extent != common) {
        throw RuleError{"type-error",
                        "one label of `equation` has the extents " + std::to_string(common) + " and " + std::to_string(extent)};
      }
    }
  }
  for (int label : output) {
    if (extents.find(label) == extents.end()) throw RuleError{"type-error", "the result of `equation` has a label that no operand has"};
  }
  // What an operand must keep: the result's labels and those of the operands after it.
  auto needed_after = [&](size_t i) {
    Labels needed = output;
    for (size_t j = i + 1; j < terms.size(); ++j) needed.insert(needed.end(), terms[j].labels.begin(), terms[j].labels.end());
    return needed;
  };
  for (Term& term : terms) {
    take_diagonals(b, term);
    drop_broadcast_axes(b, term, extents);
  }
  Term result;
  for (size_t i = 0; i < terms.size(); ++i) {
    Labels others = needed_after(i);
    if (i > 0) others.insert(others.end(), result.labels.begin(), result.labels.end());
    Term term = terms[i];
    sum_unneeded(b, term, others);
    result = i == 0 ? term : multiply(b, result, term, needed_after(i));
  }
  std::vector<int64_t> permutation;
  for (int label : output) permutation.push_back(std::find(result.labels.begin(), result.labels.end(), label) - result.labels.begin());
  return {b.transpose(result.value, permutation)};
}

}  // namespace tcc

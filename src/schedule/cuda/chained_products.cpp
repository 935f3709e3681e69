// Products of matrices of whose results a factor of a further product is made, which is never stored: the gradients of attention on the tensor cores of
// warpgroups.
//
//   chain(o, 128, 64, 2, 240, 24)
#include <algorithm>
#include <optional>
#include <utility>

#include "schedule/cuda/stream_tiles.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/product_chain.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Registers of a thread beside those of tiles, for each value that a score reads, where one of them is a score's own; where a tile reaches over an end, for what is
/// guarded, and more for a score's own.
constexpr int64_t kOtherRegisters = 20, kValueRegisters = 4, kOwnRegisters = 24, kTailRegisters = 24;
/// Operations of ordinary arithmetic for each score, beside those of the expression: its rounding, and reads of what is of columns.
constexpr double kOtherOperations = 1, kReadOperations = 1, kTailOperations = 2;

StreamWork work_of(const ProductChain& form) {
  StreamWork work{form.row, form.column};
  for (const loop::Dim& dim : form.dims) work.batch *= dim.var == form.row || dim.var == form.result ? 1 : dim.var->extent;
  work.dtype = form.results[0].value->dtype;
  work.weights = static_cast<int64_t>(form.results.size());
  work.result_columns = form.result->extent * work.weights;
  work.scores = static_cast<int64_t>(form.products.size());
  // One that is summed over k is the same as one with columns of results there, if they are as many.
  std::vector<std::pair<ExprPtr, int64_t>> of_rows, of_columns;
  const auto add = [&](auto& known, const ExprPtr& factor, const VarRef& along) {
    std::pair one(substitute_var(factor, along, Index(form.result)), along->extent);
    const bool is_new = std::none_of(known.begin(), known.end(),
                                     [&](const auto& other) { return other.second == one.second && equal(other.first, one.first); });
    if (is_new) known.push_back(std::move(one));
    return is_new ? along->extent : 0;
  };
  for (const ProductChain::Product& product : form.products) {
    work.multiply_adds += product.k->extent;
    work.row_elements += add(of_rows, product.of_row, product.k);
    work.column_elements += add(of_columns, product.of_column, product.k);
  }
  work.multiply_adds += work.result_columns;
  for (const ProductChain::Result& result : form.results) work.column_elements += add(of_columns, result.value, form.result);
  std::vector<ExprPtr> values;
  double operations = 0;
  bool reads_own = false;
  for (const ProductChain::Result& result : form.results) {
    operations += kOtherOperations;
    visit(result.weight, [&](const Expr& part) {
      const auto follows = [&](const VarRef& var) {
        return std::any_of(part.indices.begin(), part.indices.end(), [&](const Index& index) { return index.uses(var.get()); });
      };
      if (part.kind == Expr::Kind::op && part.op != Op::cast_) operations += 1;
      if (part.kind != Expr::Kind::load) return;
      operations += kReadOperations;
      reads_own = reads_own || (follows(form.row) && follows(form.column));
      const ExprPtr value = loop::load(part.buffer, part.indices);
      if (std::none_of(values.begin(), values.end(), [&](const ExprPtr& other) { return equal(other, value); })) values.push_back(value);
    });
  }
  work.operations = operations;
  work.tail_operations = kTailOperations;
  work.is_triangular = form.distance.has_value();
  work.registers = kOtherRegisters + kValueRegisters * static_cast<int64_t>(values.size()) + (reads_own ? kOwnRegisters : 0);
  work.tail_registers = kTailRegisters * (reads_own ? 2 : 1);
  return work;
}

}  // namespace

WhyNot chained_products(CudaNest& nest) {
  std::string why_not;
  const std::optional<ProductChain> form = as_product_chain(Stmt{nest.loop()}, &why_not);
  if (!form) return why_not;
  const StreamWork work = work_of(*form);
  std::vector<int64_t> lengths{form->result->extent};
  std::set<std::string> factors;
  for (const ProductChain::Result& result : form->results) factors.insert(result.value->buffer->name);
  for (const ProductChain::Product& product : form->products) {
    lengths.push_back(product.k->extent);
    factors.insert({product.of_row->buffer->name, product.of_column->buffer->name});
  }
  if (WhyNot misfit = misfit_of_stream(work, lengths, nest.target())) return misfit;
  return stream_best(nest, work, "chain", form->results[0].output->name, factors);
}

}  // namespace tcc::schedule::cuda

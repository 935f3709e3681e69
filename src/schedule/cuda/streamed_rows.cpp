// Attention on the tensor cores of warpgroups: rows of scores that are normalised and multiplied with values, and never stored.
//
//   stream(m, 128, 128, 2, 240, 24)
//
// Which tile: the one with the least time by the rates of the tensor cores and of ordinary arithmetic, of which each score takes a dozen operations. Warpgroups
// of a block don't wait for each other, so that one multiplies while another takes exponentials.
#include <optional>

#include "schedule/cuda/stream_tiles.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/streamed_rows.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Registers of a thread beside those of tiles; where scores take in what is read, such as a mask; where that ends within a tile.
constexpr int64_t kOtherRegisters = 48, kReadRegisters = 24, kGuardRegisters = 16;
/// Operations of ordinary arithmetic for each score: scale, mask, maximum, difference, exponential, sum, rounding; more where rows end within a tile.
constexpr double kOperations = 11, kTailOperations = 2;

StreamWork work_of(const StreamedRows& form) {
  const int64_t k = form.first_k->extent, n = form.result->extent;
  bool reads = false;
  visit(form.element, [&](const Expr& part) { reads = reads || part.kind == Expr::Kind::load; });
  StreamWork work{form.row, form.column};
  for (const loop::Dim& dim : form.dims) work.batch *= dim.var == form.row ? 1 : dim.var->extent;
  work.dtype = form.query->dtype;
  work.multiply_adds = k + n;
  work.operations = kOperations;
  work.tail_operations = kTailOperations;
  work.is_triangular = form.diagonal && *form.diagonal < form.column->extent;
  work.row_elements = k;
  work.column_elements = k + n;
  work.result_columns = n;
  work.registers = kOtherRegisters + (reads ? kReadRegisters : 0);
  work.tail_registers = reads ? kGuardRegisters : 0;
  return work;
}

}  // namespace

WhyNot streamed_rows(CudaNest& nest) {
  std::string why_not;
  const std::optional<StreamedRows> form = as_streamed_rows(Stmt{nest.loop()}, &why_not);
  if (!form) return why_not;
  const StreamWork work = work_of(*form);
  const int64_t lengths[] = {form->first_k->extent, form->result->extent};
  if (WhyNot misfit = misfit_of_stream(work, lengths, nest.target())) return misfit;
  return stream_best(nest, work, "stream", form->maximum->name,
                     {form->query->buffer->name, form->key->buffer->name, form->value->buffer->name});
}

}  // namespace tcc::schedule::cuda

namespace tcc::schedule {

bool has_streams(const Target& target) { return target.is_cuda() && target.warpgroup_core(DType::bf16) != nullptr; }

std::optional<double> stream_ns(const loop::Unit& unit, const Target& target) {
  if (!has_streams(target) || unit.body.size() != 1) return std::nullopt;
  const auto* loop = std::get_if<loop::Loop>(&unit.body[0].node);
  if (!loop || loop->dims.empty()) return std::nullopt;
  Chooser chooser(unit, target);
  cuda::CudaNest nest{chooser, recognise(unit.body[0])};
  if (nest.nest.kind == NestKind::rows) cuda::streamed_rows(nest);
  else if (nest.nest.kind == NestKind::reduction) cuda::chained_products(nest);
  return nest.stream_ns;
}

}  // namespace tcc::schedule

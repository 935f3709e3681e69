#include "runtime/stub/program_view.h"

#include <string.h>

#include <atomic>

#include "runtime/stub/message.h"
#include "tcc/runtime/checksum.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

enum class Verdict { unknown, whole, other_version, damaged };

// The length is part of the header, whose size is known: nothing outside of the program is read whatever has become of it.
Verdict examine(const Header& header) {
  if (memcmp(header.magic, kMagic, sizeof kMagic) != 0) return Verdict::damaged;
  if (header.version != kVersion) return Verdict::other_version;
  if (header.header_bytes != sizeof header || header.header_checksum != header_checksum(header)) return Verdict::damaged;
  const char* tables = reinterpret_cast<const char*>(&header + 1);
  return checksum(tables, header.program_bytes - sizeof header) == header.tables_checksum ? Verdict::whole : Verdict::damaged;
}

}  // namespace

int ProgramView::open(ProgramView* view) {
  view->base_ = tcc_payload.program;
  view->header_ = reinterpret_cast<const Header*>(view->base_);
  // Once per process: the pages are read-only. Threads that come at the same time find the same.
  static std::atomic<Verdict> known{Verdict::unknown};
  Verdict verdict = known.load(std::memory_order_relaxed);
  if (verdict == Verdict::unknown) known.store(verdict = examine(*view->header_), std::memory_order_relaxed);
  if (verdict == Verdict::whole) return TCC_OK;
  if (verdict == Verdict::other_version)
    return fail(TCC_DAMAGED_LIBRARY, "the program inside this library is of another version (%u, expected %u): compile the model again",
                view->header_->version, kVersion);
  return fail(TCC_DAMAGED_LIBRARY, "the program inside this library is damaged: its checksum is another; compile the model again");
}

const Target* ProgramView::target(TargetKind kind) const {
  for (const Target& target : rows<Target>(header_->targets)) {
    if (target.kind == kind) return &target;
  }
  return nullptr;
}

Rows<Target> ProgramView::targets() const { return rows<Target>(header_->targets); }

Span ProgramView::tensor_maps(const Target& target, const Launch& launch) const {
  return launch.kind == LaunchKind::kernel ? rows<Kernel>(target.kernels)[launch.kernel].tensor_maps : Span{};
}

int Arguments::prepare(const ProgramView& view, const Target& target, const Code& of, const uint64_t* weight_offsets, Memory* memory) {
  const FunctionCode& code = of.launches;
  const Rows<Buffer> buffers = view.rows<Buffer>(code.buffers);
  const Rows<Launch> launches = view.rows<Launch>(code.launches);
  const Rows<uint32_t> arguments = view.rows<uint32_t>(code.arguments);
  const uint32_t num_inputs = of.num_inputs;
  const uint64_t scalars = scalars_offset(view.header().state_bytes);
  num_slots_ = kFirstTensor + num_inputs + of.num_outputs;
  num_launches_ = launches.count;

  size_t num_maps = 0;
  for (const Launch& launch : launches) num_maps += view.tensor_maps(target, launch).count;
  const size_t num_arguments = arguments.count + size_t{3} * launches.count + num_maps;  // at most three constants each
  bases_ = memory->allocate_array<char*>(num_slots_);
  next_ = memory->allocate_array<char*>(num_slots_);
  sources_ = memory->allocate_array<Source>(num_arguments);
  ranges_ = memory->allocate_array<Range>(launches.count);
  values_ = memory->allocate_array<void*>(num_arguments);
  pointers_ = memory->allocate_array<void*>(num_arguments);
  moved_ = memory->allocate_array<bool>(launches.count);
  if (!bases_ || !next_ || !sources_ || !ranges_ || !values_ || !pointers_ || !moved_) {
    return fail(TCC_OUT_OF_MEMORY, "no memory for the launches of `%s`", view.text(view.header().model_name));
  }

  uint32_t at = 0;
  for (uint32_t l = 0; l < launches.count; l++) {
    const Launch& launch = launches[l];
    ranges_[l].first = at;
    for (uint32_t a = 0; a < launch.arguments.count; a++) {
      const Buffer* buffer = &buffers[arguments[launch.arguments.first + a]];
      uint64_t offset = 0;
      if (buffer->kind == BufferKind::alias) {
        offset = buffer->offset;
        buffer = &buffers[buffer->index];
      }
      switch (buffer->kind) {
        case BufferKind::input: sources_[at] = {kFirstTensor + buffer->index, offset + buffer->offset}; break;
        case BufferKind::output: sources_[at] = {kFirstTensor + num_inputs + buffer->index, offset + buffer->offset}; break;
        case BufferKind::weight: sources_[at] = {kWeights, offset + weight_offsets[buffer->index]}; break;
        case BufferKind::prepared: sources_[at] = {kPrepared, offset + buffer->offset}; break;
        case BufferKind::arena: sources_[at] = {kWorkspace, offset + buffer->offset}; break;
        case BufferKind::state: sources_[at] = {kState + buffer->index, offset + buffer->offset}; break;
        case BufferKind::checks: sources_[at] = {kChecks, buffer->index * sizeof(int64_t)}; break;
        case BufferKind::scalar: sources_[at] = {kState, offset + scalars + buffer->index * kScalarBytes}; break;
        default: return fail(TCC_DAMAGED_LIBRARY, "the program inside this library has a buffer of an unknown kind");
      }
      at++;
    }
    switch (launch.kind) {
      case LaunchKind::kernel: break;
      case LaunchKind::copy: sources_[at++] = {kConstant, launch.size_bytes}; break;
      case LaunchKind::fill:
        sources_[at++] = {kConstant, launch.size_bytes};
        sources_[at++] = {kConstant, launch.pattern};
        sources_[at++] = {kConstant, launch.pattern_bytes};
        break;
      default: return fail(TCC_DAMAGED_LIBRARY, "the program inside this library has a launch of an unknown kind");
    }
    ranges_[l].count = at - ranges_[l].first;
    at += view.tensor_maps(target, launch).count;
  }
  for (uint32_t i = 0; i < at; i++) pointers_[i] = &values_[i];
  return TCC_OK;
}

bool Arguments::bind() {
  if (bound_ && memcmp(bases_, next_, num_slots_ * sizeof *bases_) == 0) return false;
  for (uint32_t l = 0; l < num_launches_; l++) {
    bool moved = !bound_;
    for (uint32_t i = ranges_[l].first; i < ranges_[l].first + ranges_[l].count; i++) {
      const Source& source = sources_[i];
      if (bound_ && bases_[source.slot] == next_[source.slot]) continue;
      // Integer arithmetic: the base of the constants is no object.
      values_[i] = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(next_[source.slot]) + source.offset);
      moved = true;
    }
    moved_[l] = moved;
  }
  memcpy(bases_, next_, num_slots_ * sizeof *bases_);
  bound_ = true;
  return true;
}

}  // namespace tcc::stub

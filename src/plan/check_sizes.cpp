#include "plan/check_sizes.h"

#include <algorithm>

#include "plan/arena.h"
#include "tcc/rules/limits.h"
#include "tcc/support/diagnostics.h"

namespace tcc::plan {

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& message) { throw Error(ExitCode::model, "too-large", file, message); }

std::string printed_types(const std::vector<Value*>& values) {
  std::string text;
  for (size_t i = 0; i < values.size() && i < 3; ++i) text += (i > 0 ? ", %" : "%") + values[i]->name + ": " + to_string(values[i]->type);
  return values.size() > 3 ? text + ", ..." : text;
}

}  // namespace

void check_sizes(const group::Groups& groups, const std::vector<const schedule::ScheduledUnit*>& scheduled,
                 const schedule::Target& target) {
  const std::string& file = groups.graph->file;
  for (size_t i = 0; i < groups.units.size(); ++i) {
    const std::string unit = "\"" + groups.units[i].label + "\", which makes " + printed_types(groups.units[i].outputs);
    for (const loop::Kernel& kernel : scheduled[i]->kernels) {
      if (target.is_cuda() && kernel.grid > target.grid_blocks)
        refuse(file, unit + ", takes " + std::to_string(kernel.grid) + " blocks, the most that can be launched is " +
                         std::to_string(target.grid_blocks));
    }
    for (const loop::BufferRef& temporary : scheduled[i]->temporaries) {
      if (span_bytes(*temporary) > kMaxTensorBytes) refuse(file, unit + ", takes a temporary of more than " + size_text(kMaxTensorBytes));
    }
  }
}

void check_arena(const Plan& plan, const std::string& file) {
  if (plan.arena_bytes <= kMaxTensorBytes && plan.total_bytes <= kMaxTotalBytes) return;
  std::vector<const Buffer*> largest;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == Buffer::Kind::arena) largest.push_back(&buffer);
  }
  std::stable_sort(largest.begin(), largest.end(), [](const Buffer* a, const Buffer* b) { return a->size_bytes > b->size_bytes; });
  std::string text;
  for (size_t i = 0; i < largest.size() && i < 3; ++i) {
    text += (i > 0 ? ", `" : "`") + largest[i]->name + "`: " + std::string(name_of(largest[i]->dtype)) +
            to_string(std::span<const int64_t>(largest[i]->shape)) + " of " + size_text(largest[i]->size_bytes);
  }
  refuse(file, "the values that live at a time take " + size_text(plan.arena_bytes) + ", the most is " + size_text(kMaxTensorBytes) +
                   "; the largest are " + text);
}

}  // namespace tcc::plan

// All paddings of a concat are one launch of one block: they are few bytes, and the time is that of a launch.
//
//   kernel target sm_80 grid 1 threads 64 () -> (%r0: f32[384]) {
//     map %g0 in 58 bind(thread) { store 0, %r0[%g0 + 6] }
//     map %g1 in 28 bind(thread) { store 0, %r0[%g1 + 100] }
//   }

#include "plan/padding.h"

#include <algorithm>

#include "tcc/support/diagnostics.h"

namespace tcc::plan {

using namespace loop;

loop::Kernel padding_kernel(const std::vector<group::Padding>& paddings, const schedule::Target& target) {
  constexpr int64_t kMaxThreads = 128;
  const bool cuda = target.is_cuda();
  const Type& type = paddings.front().base->type;
  check(type.rank() == 1, "paddings are in a vector");
  const int64_t element_bytes = size_bytes(type.dtype);
  const BufferRef buffer = make_buffer("r0", type.dtype, type.shape(), Space::global);
  const ExprPtr zero = zero_of(type.dtype);
  Kernel kernel;
  kernel.target = target.name;
  kernel.params = {{buffer, true}};
  int64_t widest = 1;
  for (const group::Padding& padding : paddings) {
    const int64_t end = (padding.byte_offset + padding.size_bytes) / element_bytes;
    for (int64_t begin = padding.byte_offset / element_bytes; begin < end; begin += kMaxThreads) {
      const int64_t count = std::min(end - begin, kMaxThreads);
      const VarRef var = make_var("g" + std::to_string(kernel.body.size()), count);
      Loop loop;
      loop.dims = {{var, cuda ? Bind::thread : Bind::serial}};
      loop.body.push_back({Store{buffer, {Index(var) + Index(begin)}, zero}});
      kernel.body.push_back({std::move(loop)});
      widest = std::max(widest, count);
    }
  }
  kernel.threads = cuda ? static_cast<int>((widest + target.warp_threads - 1) / target.warp_threads * target.warp_threads) : 1;
  return kernel;
}

}  // namespace tcc::plan

// What the cost model knows of the targets: rates of one chip of the kind (for CUDA measured on an H200), for all alike.
#include "tcc/schedule/schedule.h"

namespace tcc::schedule {

Target Target::cpu_v3() {
  Target target;
  target.kind = Kind::cpu;
  target.name = "x86-64-v3";
  target.vector_bytes = 32;
  target.vector_registers = 16;
  target.cores = 2;
  target.bytes_per_ns = 12;
  target.flops_per_ns = 2 * 3.0 * 32;  // two cores at 3 GHz, two 8-wide fused multiply-adds a cycle
  return target;
}

Target Target::cuda_sm80() {
  Target target;
  target.kind = Kind::cuda;
  target.name = "sm_80";
  target.vector_bytes = 16;
  target.vector_registers = 255;
  target.cores = 132;
  target.l1_bytes = 128 << 10;
  target.l2_bytes = 60 << 20;
  target.shared_bytes = 160 << 10;
  target.bytes_per_ns = 4300;
  target.flops_per_ns = 60000;
  return target;
}

}  // namespace tcc::schedule

// Units and kernels as texts, one for each kind of statement; the tests of the text, the verifiers and the interpreters share them.
#pragma once

#include <string_view>

namespace tcc::loop::examples {

constexpr std::string_view kSoftmax = R"(
unit (%a: f32[3, 5]) -> (%b: f32[3, 5]) {
  map %i in 3 {
    %m: f32 = reduce max %j in 5 { %x: f32 = load %a[%i, %j]; yield %x }
    %s: f32 = reduce sum %j1 in 5 { %x1: f32 = load %a[%i, %j1]; yield exp(sub(%x1, %m)) }
    map %j2 in 5 { %x2: f32 = load %a[%i, %j2]; store div(exp(sub(%x2, %m)), %s), %b[%i, %j2] }
  }
}
)";

constexpr std::string_view kLayerNorm = R"(
unit (%a0: f32[4, 6], %a1: f32[6], %a2: f32[6]) -> (%r0: f32[4, 6]) {
  map %i in 4 {
    %s: f32 = reduce sum %j in 6 { yield load %a0[%i, %j] }
    %m: f32 = mul(%s, 0.16666667)
    %q: f32 = reduce sum %j1 in 6 { %d: f32 = sub(load %a0[%i, %j1], %m); yield mul(%d, %d) }
    %r: f32 = rsqrt(add(mul(%q, 0.16666667), 1e-05))
    map %j2 in 6 {
      store fma(mul(sub(load %a0[%i, %j2], %m), %r), load %a1[%j2], load %a2[%j2]), %r0[%i, %j2]
    }
  }
}
)";

constexpr std::string_view kMatmul = R"(
unit (%a: f16[4, 7], %b: f16[7, 5]) -> (%c: f16[4, 5]) {
  map %i in 4, %j in 5 {
    %s: f32 = reduce sum %k in 7 { yield mul(cast<f32>(load %a[%i, %k]), cast<f32>(load %b[%k, %j])) }
    store cast<f16>(%s), %c[%i, %j]
  }
}
)";

constexpr std::string_view kArgmax = R"(
unit (%a: f32[3, 6]) -> (%v: f32[3], %i: i64[3]) {
  map %r in 3 {
    %m: f32, %n: i64 = reduce init(-inf, -1) %j in 6 {
      %x: f32 = load %a[%r, %j]
      yield %x, index(%j)
    } combine (%lv: f32, %li: i64), (%rv: f32, %ri: i64) {
      %take: bool = or(gt(%rv, %lv), and(eq(%rv, %lv), lt(%ri, %li)))
      %first: bool = or(%take, lt(%li, 0))
      yield select(%first, %rv, %lv), select(%first, %ri, %li)
    }
    store %m, %v[%r]
    store %n, %i[%r]
  }
}
)";

constexpr std::string_view kOnlineSoftmax = R"(
unit (%a: f32[3, 5]) -> (%b: f32[3, 5]) {
  map %i in 3 {
    %m: f32, %s: f32 = reduce init(-inf, 0.0) %j in 5 { yield load %a[%i, %j], 1.0 } combine (%m1: f32, %s1: f32), (%m2: f32, %s2: f32) {
      %t: f32 = max(%m1, %m2)
      %e1: f32 = select(eq(%s1, 0.0), 0.0, mul(%s1, exp(sub(%m1, %t))))
      %e2: f32 = mul(%s2, exp(sub(%m2, %t)))
      yield %t, add(%e1, %e2)
    }
    map %j2 in 5 { store div(exp(sub(load %a[%i, %j2], %m)), %s), %b[%i, %j2] }
  }
}
)";

constexpr std::string_view kScan = R"(
unit (%a: i32[2, 5]) -> (%b: i32[2, 5], %total: i32[2]) {
  map %i in 2 {
    %s: i32 = scan sum exclusive %j in 5 { yield load %a[%i, -%j + 4] } after { store %s, %b[%i, %j] }
    store %s, %total[%i]
  }
}
)";

constexpr std::string_view kScatter = R"(
unit (%x: f32[6], %at: i64[6]) -> (%y: f32[4]) {
  map %z in 4 { store 0.0, %y[%z] }
  map %i in 6 {
    %k: i64 = load %at[%i]
    %w: i64 = select(lt(%k, 0), add(%k, 4), %k)
    scatter add load %x[%i], %y[%w]
  }
}
)";

// A pad, a temporary between two nests, a gather with a value outside, and a condition.
constexpr std::string_view kPadAndGather = R"(
unit (%x: f32[5], %at: i32[3]) -> (%y: f32[8], %z: f32[3]) {
  alloc %t: f32[8] local
  map %i in 8 { store load %x[%i - 2] else 7.5, %t[%i] }
  map %i1 in 8 where lt(index(%i1), 6) { store mul(load %t[%i1], 2.0), %y[%i1] }
  map %i2 in 2 { store load %t[%i2 + 6], %y[%i2 + 6] }
  map %g in 3 {
    %n: i64 = cast<i64>(load %at[%g])
    if ge(%n, 0) { store load %x[%n] else 0.0, %z[%g] } else { store nan, %z[%g] }
  }
}
)";

// A row reduction over the threads of a block: one element per thread kept in registers, partial sums over lanes, then through shared memory.
constexpr std::string_view kRowKernel = R"(
kernel #row target sm_80 grid 3 threads 64 shared 256 (%a: f32[3, 100]) -> (%b: f32[3, 100]) {
  map %i in 3 bind(block) {
    alloc %x: f32[2, 64] registers distributed(1)
    map %u in 2 bind(unroll), %t in 64 bind(thread) where lt(index(%u * 64 + %t), 100) { store load %a[%i, %u * 64 + %t], %x[%u, %t] }
    %s: f32 = reduce sum %u1 in 2 bind(unroll), %t1 in 64 bind(thread) where lt(index(%u1 * 64 + %t1), 100) { yield load %x[%u1, %t1] }
    map %u2 in 2 bind(unroll), %t2 in 64 bind(thread) where lt(index(%u2 * 64 + %t2), 100) { store div(load %x[%u2, %t2], %s), %b[%i, %u2 * 64 + %t2] }
  }
}
)";

// A row for each warp: lanes hold four neighbouring elements each.
constexpr std::string_view kWarpKernel = R"(
kernel #warps target sm_80 grid 2 threads 64 shared 0 (%a: f32[4, 128]) -> (%b: f32[4]) {
  map %i in 2 bind(block), %w in 2 bind(warp) {
    %m: f32 = reduce max %l in 32 bind(lane), %v in 4 bind(vector) { yield load %a[%i * 2 + %w, %l * 4 + %v] }
    map %z in 1 bind(lane) { store %m, %b[%i * 2 + %w] }
  }
}
)";

// A transpose through shared memory.
constexpr std::string_view kTransposeKernel = R"(
kernel #transpose target sm_80 grid 4 threads 64 shared 288 (%a: f32[16, 16]) -> (%b: f32[16, 16]) {
  map %i in 2 bind(block), %j in 2 bind(block) {
    alloc %s: f32[8, 8] strides(9, 1) shared
    copy (%row in 8, %column in 8) %a[%i * 8 + %row, %j * 8 + %column] -> %s[%row, %column] bytes 4
    barrier
    map %r in 8 bind(thread), %c in 8 bind(thread) { store load %s[%c, %r], %b[%j * 8 + %r, %i * 8 + %c] }
  }
}
)";

// CPU: parallel items, a packed panel, vectors with a tail.
constexpr std::string_view kCpuKernel = R"(
kernel #cpu target x86-64-v3 grid 2 threads 1 shared 0 (%a: f32[6, 11], %x: f32[11]) -> (%y: f32[6]) {
  map %i in 2 bind(parallel) {
    alloc %p: f32[3, 16] scratch
    map %r in 3 bind(serial), %c in 16 bind(vector) { store load %a[%i * 3 + %r, %c] else 0.0, %p[%r, %c] }
    map %r1 in 3 bind(unroll) {
      %s: f32 = reduce sum %k in 2 bind(serial), %v in 8 bind(vector) { yield mul(load %p[%r1, %k * 8 + %v], load %x[%k * 8 + %v] else 0.0) }
      store %s, %y[%i * 3 + %r1]
    }
  }
}
)";

// f16 matmul on mma.sync with bias: a ring of three stages filled by cp.async, two warps side by side.
constexpr std::string_view kMmaKernel = R"(
kernel #mma target sm_80 grid 2 threads 64 shared 6144 (%a: f16[32, 80], %b: f16[32, 80], %bias: f32[32]) -> (%c: f32[32, 32]) {
  map %i in 2 bind(block) {
    pipe %p stages 3 (%pa: f16[16, 16] shared, %pb: f16[32, 16] shared)
    alloc %acc: f32[16, 32] registers tile(reg 1 2 8, reg 0 2 8, reg 1 2 1, lane 0 8 1, lane 1 4 2, warp 1 2 16)
    map %acc: %m in 16 bind(tile), %n in 32 bind(tile) { store 0.0, %acc[%m, %n] }
    for %k0 in 2 bind(serial) {
      acquire %p
      copy.async (%row in 16, %column in 16) %a[%i * 16 + %row, %k0 * 16 + %column] -> %pa[%row, %column] bytes 16
      copy.async (%row in 32, %column in 16) %b[%row, %k0 * 16 + %column] -> %pb[%row, %column] bytes 16
      commit %p
    }
    for %k in 5 bind(serial) {
      wait %p
      if lt(index(%k), 3) {
        acquire %p
        copy.async (%row in 16, %column in 16) %a[%i * 16 + %row, %k * 16 + 32 + %column] -> %pa[%row, %column] bytes 16
        copy.async (%row in 32, %column in 16) %b[%row, %k * 16 + 32 + %column] -> %pb[%row, %column] bytes 16
        commit %p
      }
      mma %acc, %pa[0, 0], %pb[0, 0] size(16, 32, 16) shape m16n8k16
      release %p
    }
    map %acc: %m1 in 16 bind(tile), %n1 in 32 bind(tile) { store add(load %acc[%m1, %n1], load %bias[%n1]), %c[%i * 16 + %m1, %n1] }
  }
}
)";

}  // namespace tcc::loop::examples

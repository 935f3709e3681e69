// What the command line says, as a plain struct: everything that a compilation depends on beside the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/passes/passes.h"

namespace tcc::driver {

/// One `--emit=KIND[=PATH]`. An empty path: standard output, or `<stem>.<kind>` in the current folder; see emit.h.
struct EmitRequest {
  std::string kind;
  std::string path;
};

/// What the library computes: outputs; outputs or a loss, and gradients; whole training steps.
enum class Mode { infer, grad, train };
/// What the backward half keeps of the forward half: the fastest choice that fits, everything, as little as possible.
enum class Remat { automatic, none, full };

enum class WeightsPlace { embed, file };
enum class ProgressStyle { automatic, plain, json, off };

struct Options {
  std::string model;     ///< path, or "-" for standard input
  std::string format;    ///< -x: onnx, pt2 or fx; empty: found by content
  std::string function;  ///< --function: of a file with several, the one that is compiled; empty: all
  std::string from;      ///< --from: graph, prims, loop or kernel; empty: a model
  std::string output;    ///< -o; empty: no library is made

  int optimization = 2;                                 ///< -O0 .. -O3
  bool cpu = true, cuda = true;                         ///< --target
  std::vector<std::string> cpu_levels = {"x86-64-v3"};  ///< --cpu
  bool allow_tf32 = false;         ///< --matmul-precision below highest: products of f32 on CUDA may be of tf32 factors
  bool split_f32 = true;           ///< --matmul-precision=ieee, if not: products of f32 are by multiply-adds alone
  bool deterministic = false;      ///< --deterministic: each run computes the same bits
  std::vector<std::string> march;  ///< -march: chips that get a cubin, and the word `ptx`; empty: PTX, and a cubin when ptxas is found

  std::vector<std::string> shapes;  ///< --shapes, as written
  std::vector<std::string> bind;    ///< --bind, as written
  std::string parameters;           ///< --parameters: a safetensors file
  Bindings bindings;                ///< the same by programs; joined with the two above

  std::optional<DType>
      precision;  ///< --precision: the low precision of mixed precision, bf16 or f16; nothing: dtypes stay as the model has them

  Mode mode = Mode::infer;
  std::string loss;                        ///< --loss, see parse_loss; empty: a cotangent per output (grad only)
  std::string optimizer;                   ///< --optimizer, see parse_optimizer; train
  std::vector<std::string> wrt;            ///< --wrt: globs over inputs and parameters; grad
  std::vector<std::string> train, freeze;  ///< --train, --freeze: globs over parameters
  bool train_batch_norms = false;          ///< --batch-norm=train
  double clip_norm = 0, clip_value = 0;    ///< 0: none; train
  int accumulate = 1;                      ///< micro-batches of a step; train
  std::string loss_scale;                  ///< a number, or `dynamic`; train
  Remat remat = Remat::automatic;
  int64_t memory_budget = 0;  ///< --mem-budget: bytes that the planned peak may take; 0: no bound

  std::vector<EmitRequest> emit;
  std::string emit_weights;  ///< --emit-weights: where the weights of a graph on standard output go
  std::string dump_dir;
  std::vector<std::string> print_after;  ///< names of passes, `all` or `changed`
  std::vector<std::string> passes;       ///< --pass: only these run, in this order

  std::vector<std::string> schedules;  ///< --schedule: `[TARGET=]FILE`, lines `k3: split(i, 4)`
  std::vector<std::string> kernels;    ///< --kernel: `k3=FILE`
  std::string tune_db;                 ///< --tune-db: what `tcc tune` has measured; empty: none
  bool tune_frozen = false;            ///< --tune-frozen: what it lacks is an error

  WeightsPlace weights = WeightsPlace::embed;
  std::string symbol_prefix = "tcc_model";
  std::string soname;  ///< --soname: what a program linked with the library asks the loader for; empty: the output's name; none: no name

  bool dependencies = false;    ///< -MD
  std::string dependency_file;  ///< -MF
  int threads = 0;              ///< -j; 0: the cores of this machine
  bool quiet = false;
  ProgressStyle progress = ProgressStyle::automatic;
  bool time_report = false;
  bool json_diagnostics = false;
#ifdef NDEBUG
  bool verify_passes = false;  ///< run the verifier after every pass; also switched on by TCC_VERIFY_PASSES=1 in the environment
#else
  bool verify_passes = true;
#endif
};

}  // namespace tcc::driver

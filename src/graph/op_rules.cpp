// Which functions the rows of ops.def name. A missing one stops the link.

#include "infer.h"
#include "resolve.h"
#include "tcc/prims/rules.h"

namespace tcc {
namespace {

constexpr InferRule kInferRules[] = {
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, infer_rule, eval_rule, attributes) infer_rule,
#define TCC_COMPOSITE(name, min_operands, max_operands, results, infer_rule, decompose_rule, attributes) infer_rule,
#define TCC_DYNAMIC(name, min_operands, max_operands, results, infer_rule, resolve_rule, attributes) infer_rule,
#include "tcc/graph/ops.def"
};

constexpr EvalRule kEvalRules[] = {
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, infer_rule, eval_rule, attributes) eval_rule,
#define TCC_COMPOSITE(...) nullptr,
#define TCC_DYNAMIC(...) nullptr,
#include "tcc/graph/ops.def"
};

constexpr DecomposeRule kDecomposeRules[] = {
#define TCC_PRIM(...) nullptr,
#define TCC_COMPOSITE(name, min_operands, max_operands, results, infer_rule, decompose_rule, attributes) decompose_rule,
#define TCC_DYNAMIC(...) nullptr,
#include "tcc/graph/ops.def"
};

constexpr ResolveRule kResolveRules[] = {
#define TCC_PRIM(...) nullptr,
#define TCC_COMPOSITE(...) nullptr,
#define TCC_DYNAMIC(name, min_operands, max_operands, results, infer_rule, resolve_rule, attributes) resolve_rule,
#include "tcc/graph/ops.def"
};

}  // namespace

InferRule infer_rule(Op op) { return kInferRules[static_cast<size_t>(op)]; }
EvalRule eval_rule(Op op) { return kEvalRules[static_cast<size_t>(op)]; }
DecomposeRule decompose_rule(Op op) { return kDecomposeRules[static_cast<size_t>(op)]; }
ResolveRule resolve_rule(Op op) { return kResolveRules[static_cast<size_t>(op)]; }

}  // namespace tcc

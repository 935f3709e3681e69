#include "frontend/onnx/unsupported.h"

#include <algorithm>
#include <array>
#include <vector>

#include "frontend/onnx/handlers.h"
#include "tcc/support/suggest.h"

namespace tcc::onnx {

namespace {

struct Remedy {
  std::string_view op;
  const char* text;
};

constexpr const char* kCount =
    "how many elements come out depends on data: compute on all of them with a mask (torch.where), or leave this to the "
    "program around the model";
constexpr const char* kStrings = "tensors are numbers here: let the program around the model do this step";
constexpr const char* kBoxes = "let the program around the model do this step: export the model up to its boxes and scores";

// Ops of ONNX that are known, and have no static or no numeric form. They are never taken for another op that was misspelt.
constexpr auto kRemedies = std::to_array<Remedy>({
    {"NonZero", kCount},
    {"Compress", kCount},
    {"Unique", kCount},
    {"NonMaxSuppression", kBoxes},
    {"RoiAlign", kBoxes},
    {"MaxRoiPool", kBoxes},
    {"RegexFullMatch", kStrings},
    {"StringConcat", kStrings},
    {"StringNormalizer", kStrings},
    {"StringSplit", kStrings},
    {"TfIdfVectorizer", kStrings},
    {"ImageDecoder", kStrings},
});
// Known, without a remedy of their own.
constexpr auto kOthers = std::to_array<std::string_view>({"AffineGrid",
                                                          "BitCast",
                                                          "CenterCropPad",
                                                          "Col2Im",
                                                          "ConcatFromSequence",
                                                          "DFT",
                                                          "DeformConv",
                                                          "Det",
                                                          "GlobalLpPool",
                                                          "GridSample",
                                                          "GroupNormalization",
                                                          "LpPool",
                                                          "MaxUnpool",
                                                          "MeanVarianceNormalization",
                                                          "MelWeightMatrix",
                                                          "Multinomial",
                                                          "QLinearConv",
                                                          "QLinearMatMul",
                                                          "ReverseSequence",
                                                          "RMSNormalization",
                                                          "RotaryEmbedding",
                                                          "STFT",
                                                          "SequenceErase",
                                                          "SequenceInsert",
                                                          "Swish",
                                                          "TensorScatter"});

constexpr const char* kGeneral = "`tcc check --ops` lists what is known; export the model without the op, or as a function of known ops";

}  // namespace

const char* kind_of_unknown(std::string_view domain, std::string_view op) {
  const bool counts = domain.empty() && (op == "NonZero" || op == "Compress" || op == "Unique" || op == "NonMaxSuppression");
  return counts ? "data-dependent-size" : "unsupported-op";
}

std::string remedy_for(std::string_view domain, std::string_view op) {
  if (domain == "com.microsoft")
    return "this op comes from onnxruntime's optimizer: use the model as it was exported, before it was optimized or quantized";
  if (domain == "ai.onnx.ml" && (op == "LabelEncoder" || op == "CategoryMapper" || op == "DictVectorizer")) return kStrings;
  if (!domain.empty())
    return "give the model a function of that name made of ONNX's ops (torch.onnx.export writes them), or export without the op";
  for (const Remedy& remedy : kRemedies) {
    if (remedy.op == op) return remedy.text;
  }
  if (std::find(kOthers.begin(), kOthers.end(), op) != kOthers.end()) return kGeneral;
  std::vector<std::string> known;
  for (const Handler* handler : all_handlers()) {
    if (handler->domain.empty()) known.emplace_back(handler->op);
  }
  const std::string meant = did_you_mean(op, known);
  return meant.empty() ? kGeneral : "ONNX has no such op, " + meant;
}

}  // namespace tcc::onnx

// dump_kernel [--tf32] [--llvm] FILE.loop [SCHEDULE]: what the CUDA backend makes of a first form: the schedule (chosen, or the one given), the kernels' text and their faults, PTX,
// and ptxas's report of registers and spills where there is a ptxas. Exit code 1 when a kernel doesn't verify or spills.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tcc/codegen/codegen.h"
#include "tcc/loop/loop.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/diagnostics.h"

namespace {

int dump(const std::string& path, const char* given, bool tf32, bool llvm) {
  using namespace tcc;
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s: can't be read\n", path.c_str());
    return 2;
  }
  std::ostringstream text;
  text << file.rdbuf();
  const loop::Unit unit = loop::parse_unit(text.str(), path);
  schedule::Target target = schedule::Target::cuda_sm80();
  target.allow_tf32 = tf32;
  const schedule::Schedule schedule = given ? schedule::parse_schedule(given, "schedule") : schedule::choose(unit, target);
  std::printf("// schedule\n%s\n", print(schedule).c_str());
  const std::vector<loop::Kernel> kernels = schedule::split_kernels(schedule::apply(unit, schedule, target), target, nullptr);
  int status = 0;
  std::vector<codegen::NamedKernel> named;
  for (size_t i = 0; i < kernels.size(); i++) {
    named.push_back({"k" + std::to_string(i), &kernels[i]});
    std::printf("// kernel, estimated %.0f ns\n%s\n", schedule::estimate_ns(kernels[i], target),
                loop::print(kernels[i], named.back().name).c_str());
    for (const std::string& fault : loop::verify_kernel(kernels[i])) {
      std::printf("// fault: %s\n", fault.c_str());
      status = 1;
    }
  }
  if (status != 0) return status;
  codegen::Options options;
  options.target = target.name;
  options.want_llvm = llvm;
  const codegen::CompiledModule products = emit_nvptx(named, options);
  const std::string& ptx = products.assembly;
  if (llvm) std::printf("; LLVM IR\n%s\n", products.llvm_ir.c_str());
  std::printf("%s\n", ptx.c_str());
  if (codegen::find_ptxas().empty()) return status;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    std::string report;
    codegen::assemble_ptx(ptx, arch, &report);
    std::printf("// ptxas %s\n%s\n", arch, report.c_str());
    if (report.find("bytes spill stores") != std::string::npos && report.find(" 0 bytes spill stores") == std::string::npos) status = 1;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  bool tf32 = false, llvm = false;
  std::vector<const char*> words;
  for (int i = 1; i < argc; i++) {
    if (std::string(argv[i]) == "--tf32") tf32 = true;
    else if (std::string(argv[i]) == "--llvm") llvm = true;
    else words.push_back(argv[i]);
  }
  if (words.empty() || words.size() > 2) {
    std::fputs("usage: dump_kernel [--tf32] [--llvm] FILE.loop [SCHEDULE]\n", stderr);
    return 2;
  }
  try {
    return dump(words[0], words.size() > 1 ? words[1] : nullptr, tf32, llvm);
  } catch (const tcc::Error& error) {
    for (const tcc::Diagnostic& diagnostic : error.diagnostics()) std::fprintf(stderr, "%s\n", diagnostic.message.c_str());
    return 2;
  }
}

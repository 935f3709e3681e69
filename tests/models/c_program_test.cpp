// What a user of a library does without tcc: a C program, the emitted header, `cc`, and the library. Its outputs are the framework's.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "cli/models.h"
#include "cli/program.h"

namespace tcc::test {
namespace {

constexpr const char* kProgram = R"(#include "mlp.h"
#include <stdio.h>

static float input[MLP_INPUT_INPUT_ELEMENTS], output[MLP_OUTPUT_LINEAR_1_ELEMENTS];

int main(void) {
  tcc_instance* model;
  FILE* file = fopen("input.bin", "rb");
  if (!file || fread(input, sizeof(float), MLP_INPUT_INPUT_ELEMENTS, file) != MLP_INPUT_INPUT_ELEMENTS) return 2;
  fclose(file);
  if (mlp_create(TCC_DEVICE_CPU, &model) || mlp_run(model, input, output)) {
    puts(mlp_error());
    return 1;
  }
  for (int i = 0; i < MLP_OUTPUT_LINEAR_1_ELEMENTS; i++) printf("%.9g\n", output[i]);
  mlp_destroy(model);
  return 0;
}
)";

TEST(CProgram, RunsAModelThroughItsHeader) {
  const Folder folder;
  const Result compiled =
      run_tcc("\"$MODELS/mnist_mlp/dynamo.onnx\" --target=cpu --symbol-prefix=mlp -o mlp.so --emit=header=mlp.h", folder.path());
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const Reference reference = read_reference({"mnist_mlp", std::string(TCC_MODELS_DIR) + "/mnist_mlp/dynamo.onnx"});
  const Tensor& input = reference.inputs.at(0);
  ASSERT_EQ(input.dtype(), DType::f32);
  std::ofstream(folder / "input.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(input.data<float>()), static_cast<std::streamsize>(input.count() * sizeof(float)));
  folder.write("main.c", kProgram);
  const Result built = run_shell("cc -std=c11 -Wall -Wextra -Werror -pedantic main.c ./mlp.so -Wl,-rpath,'$ORIGIN' -o main", folder.path());
  ASSERT_EQ(built.exit_code, 0) << built.err;
  const Result ran = run_shell("./main", folder.path());
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  std::istringstream lines(ran.out);
  int64_t count = 0;
  for (double found = 0; lines >> found; ++count) {
    const double expected = reference.output.as_double(count);
    EXPECT_LE(std::fabs(found - expected), 1e-5 + 1e-4 * std::fabs(expected)) << count;
  }
  EXPECT_EQ(count, reference.output.count());
}

}  // namespace
}  // namespace tcc::test

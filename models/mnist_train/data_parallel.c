/* Two or more processes train one model together: each takes its own batches, and the gradients are averaged between backward and update.
 *
 *   mpirun -n 2 data_parallel [STEPS=100]    in a folder with images.bin and labels.bin of make_data.py; leaves mnist.safetensors
 *
 * The gradients of all parameters of one dtype are one flat buffer, so one all-reduce does. On CUDA the same buffer is device memory,
 * for NCCL or an MPI that takes such pointers.
 */
#include "mnist.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 8, PIXELS = MNIST_FORWARD_INPUT_INPUT_ELEMENTS / BATCH };

static float images[BATCH * PIXELS];
static int64_t labels[BATCH];

static void check(int failed, const char* what) {
  if (!failed) return;
  fprintf(stderr, "data_parallel: %s: %s\n", what, mnist_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Batch `number` of the files, which begin again where they end. */
static void read_batch(FILE* image_file, FILE* label_file, long number) {
  fseek(label_file, 0, SEEK_END);
  const long batches = ftell(label_file) / (BATCH * (long)sizeof(int64_t)), first = batches > 0 ? number % batches * BATCH : 0;
  const int failed = fseek(image_file, first * PIXELS * (long)sizeof(float), SEEK_SET) != 0 ||
                     fread(images, sizeof(float), BATCH * PIXELS, image_file) != BATCH * PIXELS ||
                     fseek(label_file, first * (long)sizeof(int64_t), SEEK_SET) != 0 ||
                     fread(labels, sizeof(int64_t), BATCH, label_file) != BATCH;
  if (!failed) return;
  fprintf(stderr, "data_parallel: images.bin or labels.bin is too short\n");
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int steps = argc > 1 ? atoi(argv[1]) : 100;
  FILE *image_file = fopen("images.bin", "rb"), *label_file = fopen("labels.bin", "rb");
  if (!image_file || !label_file) {
    perror("images.bin, labels.bin");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  tcc_instance* model;
  check(mnist_create(TCC_DEVICE_CPU, &model), "create");
  uint32_t section;
  tcc_section_info gradients = {.struct_size = sizeof gradients};
  check(mnist_api()->find_section("gradients.f32", &section), "find_section");
  check(mnist_api()->section_info(model, section, &gradients), "section_info");
  const int count = (int)(gradients.size_bytes / sizeof(float));
  unsigned char* saved = malloc(MNIST_FORWARD_OUTPUT_SAVED_BYTES);
  if (!saved) MPI_Abort(MPI_COMM_WORLD, 1);

  for (int step = 0; step < steps; step++) {
    float loss;
    read_batch(image_file, label_file, (long)step * size + rank);
    check(mnist_forward(model, images, labels, &loss, saved), "forward");
    check(mnist_backward(model, images, labels, saved), "backward");
    MPI_Allreduce(MPI_IN_PLACE, gradients.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) ((float*)gradients.data)[i] /= (float)size;
    check(mnist_update(model), "update");
    MPI_Allreduce(MPI_IN_PLACE, &loss, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && (step + 1) % 10 == 0) printf("step %d: loss %.4f\n", step + 1, loss / (float)size);
  }

  /* Every process has made the same updates. */
  tcc_section_info parameters = {.struct_size = sizeof parameters};
  check(mnist_api()->find_section("parameters.f32", &section), "find_section");
  check(mnist_api()->section_info(model, section, &parameters), "section_info");
  double sum = 0, largest, smallest;
  for (size_t i = 0; i < parameters.size_bytes / sizeof(float); i++) sum += ((float*)parameters.data)[i] * (double)(i % 97 + 1);
  MPI_Allreduce(&sum, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(&sum, &smallest, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0) printf("parameters %s\n", largest == smallest ? "are equal in all processes" : "DIFFER");
  if (rank == 0) check(mnist_save(model, "mnist.safetensors"), "save");
  mnist_destroy(model);
  free(saved);
  fclose(image_file);
  fclose(label_file);
  MPI_Finalize();
  return largest == smallest ? 0 : 1;
}

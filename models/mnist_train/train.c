/* Trains a classifier of digits through the header that tcc writes for it. See docs/training.md.
 *
 *   train [cpu|cuda|auto] [EPOCHS=5]        in a folder with images.bin and labels.bin of make_data.py
 */
#include "mnist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 8, PIXELS = MNIST_STEP_INPUT_INPUT_ELEMENTS / BATCH, CLASSES = 10 };

static void fail(const char* what) {
  fprintf(stderr, "train: %s: %s\n", what, mnist_error());
  exit(1);
}

/* All of a file; its size in bytes goes to *size. */
static void* read_all(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    exit(1);
  }
  *size = (size_t)ftell(file);
  rewind(file);
  void* bytes = malloc(*size);
  if (!bytes || fread(bytes, 1, *size, file) != *size) {
    perror(path);
    exit(1);
  }
  fclose(file);
  return bytes;
}

/* The share of images for which the largest output is the label. */
static double accuracy(tcc_instance* model, const float* images, const int64_t* labels, size_t count) {
  size_t right = 0;
  for (size_t i = 0; i + BATCH <= count; i += BATCH) {
    float scores[BATCH * CLASSES];
    if (mnist_run(model, images + i * PIXELS, scores)) fail("run");
    for (size_t k = 0; k < BATCH; k++) {
      int best = 0;
      for (int c = 1; c < CLASSES; c++)
        if (scores[k * CLASSES + (size_t)c] > scores[k * CLASSES + (size_t)best]) best = c;
      right += best == labels[i + k];
    }
  }
  return (double)right / (double)(count / BATCH * BATCH);
}

int main(int argc, char** argv) {
  const char* device = argc > 1 ? argv[1] : "auto";
  const int epochs = argc > 2 ? atoi(argv[2]) : 5;
  size_t image_bytes, label_bytes;
  const float* images = read_all("images.bin", &image_bytes);
  const int64_t* labels = read_all("labels.bin", &label_bytes);
  const size_t count = label_bytes / sizeof *labels, held_out = count / 5, trained = count - held_out;
  if (count < 5 * BATCH || image_bytes != count * PIXELS * sizeof *images) {
    fprintf(stderr, "train: images.bin and labels.bin do not belong together\n");
    return 1;
  }
  tcc_instance* model;
  const int32_t where = !strcmp(device, "cuda") ? TCC_DEVICE_CUDA : !strcmp(device, "cpu") ? TCC_DEVICE_CPU : TCC_DEVICE_AUTO;
  if (mnist_create(where, &model)) fail("create");
  for (int epoch = 1; epoch <= epochs; epoch++) {
    double sum = 0;
    size_t steps = 0;
    if (mnist_set_lr(model, 1e-3 / epoch)) fail("set_lr");
    for (size_t i = 0; i + BATCH <= trained; i += BATCH, steps++) {
      float loss;
      if (mnist_step(model, images + i * PIXELS, labels + i, &loss)) fail("step");
      sum += loss;
    }
    printf("epoch %d: loss %.4f, right on unseen images %.3f\n", epoch, sum / (double)steps,
           accuracy(model, images + trained * PIXELS, labels + trained, held_out));
  }
  if (mnist_save(model, "mnist.safetensors")) fail("save");
  mnist_destroy(model);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The documented life of a client: init, load, tensor information, allocate, write, execute, read,
 * unload, close. Compiled as a user would, with nothing but the public headers: linked with libnrt,
 * or, with -DRUN_NEFF_DLOPEN, through dlopen and dlclose and without nrt_close. Arguments: NEFF
 * files. Prints a hash of each output, so that two runs can be compared; exit status 1 on the first
 * failure.
 */
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef RUN_NEFF_DLOPEN
#include <dlfcn.h>
// One call a line; the formatter finds no fixed point for this macro.
// clang-format off
#define CALLS(X) \
  X(nrt_init) \
  X(nrt_load) \
  X(nrt_unload) \
  X(nrt_get_model_tensor_info) \
  X(nrt_free_model_tensor_info) \
  X(nrt_allocate_tensor_set) \
  X(nrt_destroy_tensor_set) \
  X(nrt_add_tensor_to_tensor_set) \
  X(nrt_tensor_allocate) \
  X(nrt_tensor_free) \
  X(nrt_tensor_write) \
  X(nrt_tensor_read) \
  X(nrt_execute) \
  X(nrt_get_status_as_str)
// clang-format on
static void *library;
#define DECLARE(name) static __typeof__(&name) name##_;
CALLS(DECLARE)
#define nrt_init nrt_init_
#define nrt_load nrt_load_
#define nrt_unload nrt_unload_
#define nrt_get_model_tensor_info nrt_get_model_tensor_info_
#define nrt_free_model_tensor_info nrt_free_model_tensor_info_
#define nrt_allocate_tensor_set nrt_allocate_tensor_set_
#define nrt_destroy_tensor_set nrt_destroy_tensor_set_
#define nrt_add_tensor_to_tensor_set nrt_add_tensor_to_tensor_set_
#define nrt_tensor_allocate nrt_tensor_allocate_
#define nrt_tensor_free nrt_tensor_free_
#define nrt_tensor_write nrt_tensor_write_
#define nrt_tensor_read nrt_tensor_read_
#define nrt_execute nrt_execute_
#define nrt_get_status_as_str nrt_get_status_as_str_
#endif

#define CHECK(call)                                                 \
  do {                                                              \
    NRT_STATUS status_ = (call);                                    \
    if (status_ != NRT_SUCCESS) {                                   \
      fprintf(stderr, "%s: %s: %d %s\n", path, #call, (int)status_, \
              nrt_get_status_as_str(status_));                      \
      exit(1);                                                      \
    }                                                               \
  } while (0)

static void *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  void *bytes;
  long length;

  /* A folder can be opened, but not read. */
  if (!file || (fgetc(file) == EOF && ferror(file)) || fseek(file, 0, SEEK_END) ||
      (length = ftell(file)) < 0) {
    perror(path);
    exit(1);
  }
  rewind(file);
  bytes = malloc((size_t)length + 1);
  if (!bytes || fread(bytes, 1, (size_t)length, file) != (size_t)length) {
    perror(path);
    exit(1);
  }
  fclose(file);
  *size = (size_t)length;
  return bytes;
}

/* Numbers that differ from element to element, small ones and finite in every float type. */
static void fill(unsigned char *bytes, size_t size, int dtype) {
  size_t i;

  for (i = 0; dtype == NRT_DTYPE_FLOAT32 && i + 4 <= size; i += 4) {
    float value = (float)(i / 4 % 17) * 0.0625f - 0.5f;
    memcpy(bytes + i, &value, 4);
  }
  /* Numbers of rows: no two are equal. */
  for (i = 0; dtype == NRT_DTYPE_UINT32 && i + 4 <= size; i += 4) {
    uint32_t value = (uint32_t)(i / 4);
    memcpy(bytes + i, &value, 4);
  }
  for (i = 0; dtype == NRT_DTYPE_BFLOAT16 && i + 2 <= size; i += 2) {
    float value = (float)(i / 2 % 17) * 0.0625f - 0.5f;
    memcpy(bytes + i, (char *)&value + 2, 2);
  }
}

static void run(const char *path) {
  nrt_tensor_info_array_t *info = NULL;
  nrt_tensor_set_t *inputs = NULL, *outputs = NULL;
  nrt_tensor_t **tensors;
  nrt_model_t *model = NULL;
  unsigned char *bytes;
  size_t size, k;
  uint64_t i;

  bytes = read_file(path, &size);
  CHECK(nrt_load(bytes, size, -1, -1, &model));
  free(bytes);
  CHECK(nrt_get_model_tensor_info(model, &info));
  CHECK(nrt_allocate_tensor_set(&inputs));
  CHECK(nrt_allocate_tensor_set(&outputs));
  tensors = calloc((size_t)info->tensor_count + 1, sizeof(*tensors));
  for (i = 0; i < info->tensor_count; i++) {
    nrt_tensor_info_t *t = &info->tensor_array[i];
    int input = t->usage == NRT_TENSOR_USAGE_INPUT;

    CHECK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, t->size, t->name, &tensors[i]));
    bytes = calloc(1, t->size);
    fill(bytes, t->size, (int)t->dtype);
    if (input) CHECK(nrt_tensor_write(tensors[i], bytes, 0, t->size));
    free(bytes);
    CHECK(nrt_add_tensor_to_tensor_set(input ? inputs : outputs, t->name, tensors[i]));
  }
  CHECK(nrt_execute(model, inputs, outputs));
  for (i = 0; i < info->tensor_count; i++) {
    nrt_tensor_info_t *t = &info->tensor_array[i];
    uint64_t hash = 0xcbf29ce484222325u;

    if (t->usage != NRT_TENSOR_USAGE_OUTPUT) continue;
    bytes = malloc(t->size);
    CHECK(nrt_tensor_read(tensors[i], bytes, 0, t->size));
    for (k = 0; k < t->size; k++) hash = (hash ^ bytes[k]) * 0x100000001b3u;
    free(bytes);
    printf("%s %s %016llx\n", strrchr(path, '/') ? strrchr(path, '/') + 1 : path, t->name,
           (unsigned long long)hash);
  }
  nrt_destroy_tensor_set(&inputs);
  nrt_destroy_tensor_set(&outputs);
  for (i = 0; i < info->tensor_count; i++) nrt_tensor_free(&tensors[i]);
  free(tensors);
  nrt_free_model_tensor_info(info);
  CHECK(nrt_unload(model));
}

int main(int argc, char **argv) {
  const char *path = "libnrt.so.1";
  int i;

  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL.neff...\n", argv[0]);
    return 2;
  }
#ifdef RUN_NEFF_DLOPEN
  library = dlopen("libnrt.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
#undef nrt_init
#define FIND(symbol, variable)                  \
  *(void **)&variable = dlsym(library, symbol); \
  if (!variable) {                              \
    fprintf(stderr, "%s\n", dlerror());         \
    return 1;                                   \
  }
  FIND("nrt_init", nrt_init_)
  FIND("nrt_load", nrt_load_)
  FIND("nrt_unload", nrt_unload_)
  FIND("nrt_get_model_tensor_info", nrt_get_model_tensor_info_)
  FIND("nrt_free_model_tensor_info", nrt_free_model_tensor_info_)
  FIND("nrt_allocate_tensor_set", nrt_allocate_tensor_set_)
  FIND("nrt_destroy_tensor_set", nrt_destroy_tensor_set_)
  FIND("nrt_add_tensor_to_tensor_set", nrt_add_tensor_to_tensor_set_)
  FIND("nrt_tensor_allocate", nrt_tensor_allocate_)
  FIND("nrt_tensor_free", nrt_tensor_free_)
  FIND("nrt_tensor_write", nrt_tensor_write_)
  FIND("nrt_tensor_read", nrt_tensor_read_)
  FIND("nrt_execute", nrt_execute_)
  FIND("nrt_get_status_as_str", nrt_get_status_as_str_)
#define nrt_init nrt_init_
#endif
  CHECK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
  for (i = 1; i < argc; i++) run(argv[i]);
#ifdef RUN_NEFF_DLOPEN
  dlclose(library);
#else
  nrt_close();
#endif
  return 0;
}

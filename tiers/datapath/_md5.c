/*
 * Multi-buffer MD5: many independent messages hashed side by side, one in each 32-bit lane of a vector register.
 *
 * MD5 is a chain: one message cannot be split, so one stream never runs faster than one core's scalar MD5. Messages
 * that are in flight together (the bodies of one group commit, the open segments of parallel uploads and parts) can
 * share the instructions. Two kernels, chosen by the CPU at run time, no compiler flags needed:
 *
 *   16 lanes   AVX-512F   (three-input logic and rotate are single instructions)
 *    8 lanes   AVX2
 *
 * Interface (little endian; on other processors than x86-64 md5_lanes() answers 0 and nothing else may be called):
 *
 *   md5_lanes()                                widest kernel this CPU runs: 16, 8 or 0 (0: the caller keeps its own MD5)
 *   md5_blocks(lanes, state, data, blocks)     advance `lanes` running hashes by `blocks` 64-byte blocks each;
 *                                              state is uint32_t[4][lanes] (A, B, C, D), data[i] the next bytes of lane i.
 *                                              An idle lane points at any readable bytes and its state is thrown away.
 *   md5_many(lanes, n, data, size, digest)     whole messages: digest[i] = MD5(data[i], size[i]), any n, any sizes.
 *
 * Nothing here allocates, keeps state between calls, or touches Python objects: md5.py calls it through ctypes, with the
 * GIL released. The module object at the end is empty; it exists so that the build and importers treat the file as
 * any extension. Differential test against hashlib: tests/unit/datapath/test_md5.py.
 *
 * MD5 is used because S3 defines ETag and Content-MD5 with it, never as protection.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES_MAX 16

/* The 64 steps: S(function, message word, additive constant, rotation). Constants: floor(2^32 * |sin(step + 1)|). */
#define MD5_STEPS(S) \
  S(F, 0,0xd76aa478u, 7) S(F, 1,0xe8c7b756u,12) S(F, 2,0x242070dbu,17) S(F, 3,0xc1bdceeeu,22) \
  S(F, 4,0xf57c0fafu, 7) S(F, 5,0x4787c62au,12) S(F, 6,0xa8304613u,17) S(F, 7,0xfd469501u,22) \
  S(F, 8,0x698098d8u, 7) S(F, 9,0x8b44f7afu,12) S(F,10,0xffff5bb1u,17) S(F,11,0x895cd7beu,22) \
  S(F,12,0x6b901122u, 7) S(F,13,0xfd987193u,12) S(F,14,0xa679438eu,17) S(F,15,0x49b40821u,22) \
  S(G, 1,0xf61e2562u, 5) S(G, 6,0xc040b340u, 9) S(G,11,0x265e5a51u,14) S(G, 0,0xe9b6c7aau,20) \
  S(G, 5,0xd62f105du, 5) S(G,10,0x02441453u, 9) S(G,15,0xd8a1e681u,14) S(G, 4,0xe7d3fbc8u,20) \
  S(G, 9,0x21e1cde6u, 5) S(G,14,0xc33707d6u, 9) S(G, 3,0xf4d50d87u,14) S(G, 8,0x455a14edu,20) \
  S(G,13,0xa9e3e905u, 5) S(G, 2,0xfcefa3f8u, 9) S(G, 7,0x676f02d9u,14) S(G,12,0x8d2a4c8au,20) \
  S(H, 5,0xfffa3942u, 4) S(H, 8,0x8771f681u,11) S(H,11,0x6d9d6122u,16) S(H,14,0xfde5380cu,23) \
  S(H, 1,0xa4beea44u, 4) S(H, 4,0x4bdecfa9u,11) S(H, 7,0xf6bb4b60u,16) S(H,10,0xbebfbc70u,23) \
  S(H,13,0x289b7ec6u, 4) S(H, 0,0xeaa127fau,11) S(H, 3,0xd4ef3085u,16) S(H, 6,0x04881d05u,23) \
  S(H, 9,0xd9d4d039u, 4) S(H,12,0xe6db99e5u,11) S(H,15,0x1fa27cf8u,16) S(H, 2,0xc4ac5665u,23) \
  S(I, 0,0xf4292244u, 6) S(I, 7,0x432aff97u,10) S(I,14,0xab9423a7u,15) S(I, 5,0xfc93a039u,21) \
  S(I,12,0x655b59c3u, 6) S(I, 3,0x8f0ccc92u,10) S(I,10,0xffeff47du,15) S(I, 1,0x85845dd1u,21) \
  S(I, 8,0x6fa87e4fu, 6) S(I,15,0xfe2ce6e0u,10) S(I, 6,0xa3014314u,15) S(I,13,0x4e0811a1u,21) \
  S(I, 4,0xf7537e82u, 6) S(I,11,0xbd3af235u,10) S(I, 2,0x2ad7d2bbu,15) S(I, 9,0xeb86d391u,21)

/* ---------------------------------------------------------------- 16 lanes, AVX-512F */

/* Truth tables of the round functions as ternary-logic immediates (first operand is the most significant bit). */
#define F16(b, c, d) _mm512_ternarylogic_epi32(b, c, d, 0xCA) /* b ? c : d      */
#define G16(b, c, d) _mm512_ternarylogic_epi32(d, b, c, 0xCA) /* d ? b : c      */
#define H16(b, c, d) _mm512_ternarylogic_epi32(b, c, d, 0x96) /* b ^ c ^ d      */
#define I16(b, c, d) _mm512_ternarylogic_epi32(c, b, d, 0x2D) /* c ^ (b | ~d)   */
#define STEP16(FN, word, k, r)                                                                       \
  {                                                                                                  \
    __m512i f = _mm512_add_epi32(_mm512_add_epi32(a, FN##16(b, c, d)),                               \
                                 _mm512_add_epi32(x[word], _mm512_set1_epi32((int)k)));              \
    a = d; d = c; c = b; b = _mm512_add_epi32(b, _mm512_rol_epi32(f, r));                            \
  }

/* One 64-byte block of each lane, turned so that x[w] holds word w of all 16 lanes. */
__attribute__((target("avx512f"))) static inline void load16(const uint8_t *const *data, size_t offset, __m512i *x) {
  __m512i r[16], t[16];
  for (int i = 0; i < 16; i++) r[i] = _mm512_loadu_si512(data[i] + offset);
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int j = 0; j < 4; j++) {
    t[j] = _mm512_shuffle_i32x4(r[j], r[j + 4], 0x88);
    t[j + 4] = _mm512_shuffle_i32x4(r[j], r[j + 4], 0xDD);
    t[j + 8] = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0x88);
    t[j + 12] = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0xDD);
  }
  for (int j = 0; j < 4; j++) {
    x[j] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88);
    x[j + 8] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0xDD);
    x[j + 4] = _mm512_shuffle_i32x4(t[j + 4], t[j + 12], 0x88);
    x[j + 12] = _mm512_shuffle_i32x4(t[j + 4], t[j + 12], 0xDD);
  }
}

__attribute__((target("avx512f"))) static void blocks16(uint32_t *state, const uint8_t *const *data, size_t blocks) {
  __m512i A = _mm512_loadu_si512(state), B = _mm512_loadu_si512(state + 16);
  __m512i C = _mm512_loadu_si512(state + 32), D = _mm512_loadu_si512(state + 48);
  for (size_t n = 0; n < blocks; n++) {
    __m512i x[16], a = A, b = B, c = C, d = D;
    load16(data, n * 64, x);
    MD5_STEPS(STEP16)
    A = _mm512_add_epi32(A, a); B = _mm512_add_epi32(B, b); C = _mm512_add_epi32(C, c); D = _mm512_add_epi32(D, d);
  }
  _mm512_storeu_si512(state, A); _mm512_storeu_si512(state + 16, B);
  _mm512_storeu_si512(state + 32, C); _mm512_storeu_si512(state + 48, D);
}

/* ---------------------------------------------------------------- 8 lanes, AVX2 */

#define XOR8 _mm256_xor_si256
#define AND8 _mm256_and_si256
#define F8(b, c, d) XOR8(d, AND8(b, XOR8(c, d)))
#define G8(b, c, d) XOR8(c, AND8(d, XOR8(b, c)))
#define H8(b, c, d) XOR8(XOR8(b, c), d)
#define I8(b, c, d) XOR8(c, _mm256_or_si256(b, XOR8(d, ones)))
#define STEP8(FN, word, k, r)                                                                        \
  {                                                                                                  \
    __m256i f = _mm256_add_epi32(_mm256_add_epi32(a, FN##8(b, c, d)),                                \
                                 _mm256_add_epi32(x[word], _mm256_set1_epi32((int)k)));              \
    f = _mm256_or_si256(_mm256_slli_epi32(f, r), _mm256_srli_epi32(f, 32 - r));                      \
    a = d; d = c; c = b; b = _mm256_add_epi32(b, f);                                                 \
  }

/* Half a block (8 words) of each of 8 lanes, turned: x[w] holds word w of all lanes. */
__attribute__((target("avx2"))) static inline void load8(const uint8_t *const *data, size_t offset, __m256i *x) {
  __m256i r[8], t[8];
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_si256((const __m256i *)(data[i] + offset));
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int j = 0; j < 4; j++) {
    x[j] = _mm256_permute2x128_si256(r[j], r[j + 4], 0x20);
    x[j + 4] = _mm256_permute2x128_si256(r[j], r[j + 4], 0x31);
  }
}

__attribute__((target("avx2"))) static void blocks8(uint32_t *state, const uint8_t *const *data, size_t blocks) {
  const __m256i ones = _mm256_set1_epi32(-1);
  __m256i *s = (__m256i *)state;
  __m256i A = _mm256_loadu_si256(s), B = _mm256_loadu_si256(s + 1);
  __m256i C = _mm256_loadu_si256(s + 2), D = _mm256_loadu_si256(s + 3);
  for (size_t n = 0; n < blocks; n++) {
    __m256i x[16], a = A, b = B, c = C, d = D;
    load8(data, n * 64, x);
    load8(data, n * 64 + 32, x + 8);
    MD5_STEPS(STEP8)
    A = _mm256_add_epi32(A, a); B = _mm256_add_epi32(B, b); C = _mm256_add_epi32(C, c); D = _mm256_add_epi32(D, d);
  }
  _mm256_storeu_si256(s, A); _mm256_storeu_si256(s + 1, B); _mm256_storeu_si256(s + 2, C); _mm256_storeu_si256(s + 3, D);
}

/* ---------------------------------------------------------------- interface */

int md5_lanes(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return 16;
  if (__builtin_cpu_supports("avx2")) return 8;
  return 0;
}

void md5_blocks(int lanes, uint32_t *state, const uint8_t *const *data, size_t blocks) {
  if (lanes == 16) blocks16(state, data, blocks);
  else blocks8(state, data, blocks);
}

/* One message on its way through a lane: whole blocks of its body first, then its one or two padding blocks. */
struct job {
  const uint8_t *next;
  size_t blocks; /* whole blocks left at `next` */
  size_t index;
  int tail_done;
  size_t tail_blocks;
  uint8_t tail[128];
};

static void start(struct job *job, uint32_t *state, int lanes, int lane, const uint8_t *data, size_t size, size_t index) {
  const size_t rest = size % 64;
  const uint64_t bits = (uint64_t)size * 8;
  job->next = data;
  job->blocks = size / 64;
  job->index = index;
  job->tail_done = 0;
  job->tail_blocks = rest < 56 ? 1 : 2;
  memset(job->tail, 0, sizeof job->tail);
  if (rest) memcpy(job->tail, data + size - rest, rest);
  job->tail[rest] = 0x80;
  memcpy(job->tail + job->tail_blocks * 64 - 8, &bits, 8);
  state[lane] = 0x67452301u;
  state[lanes + lane] = 0xefcdab89u;
  state[2 * lanes + lane] = 0x98badcfeu;
  state[3 * lanes + lane] = 0x10325476u;
}

/* Whole messages. Each round runs as many blocks as the shortest busy lane has left; a lane that ends takes the next. */
void md5_many(int lanes, size_t n, const uint8_t *const *data, const size_t *size, uint8_t (*digest)[16]) {
  uint32_t state[4 * LANES_MAX];
  struct job jobs[LANES_MAX];
  const uint8_t *next[LANES_MAX];
  int busy[LANES_MAX] = {0};
  size_t taken = 0, done = 0;
  while (done < n) {
    size_t run = SIZE_MAX;
    int some = 0;
    for (int lane = 0; lane < lanes; lane++) {
      struct job *job = &jobs[lane];
      if (!busy[lane] && taken < n) {
        start(job, state, lanes, lane, data[taken], size[taken], taken);
        taken++;
        busy[lane] = 1;
      }
      if (!busy[lane]) continue;
      if (!job->blocks && !job->tail_done) {
        job->next = job->tail;
        job->blocks = job->tail_blocks;
        job->tail_done = 1;
      }
      if (job->blocks < run) run = job->blocks;
      some = lane;
    }
    for (int lane = 0; lane < lanes; lane++) next[lane] = busy[lane] ? jobs[lane].next : jobs[some].next;
    md5_blocks(lanes, state, next, run);
    for (int lane = 0; lane < lanes; lane++) {
      struct job *job = &jobs[lane];
      if (!busy[lane]) continue;
      job->next += run * 64;
      job->blocks -= run;
      if (job->blocks || !job->tail_done) continue;
      for (int word = 0; word < 4; word++) memcpy(digest[job->index] + 4 * word, &state[word * lanes + lane], 4);
      busy[lane] = 0;
      done++;
    }
  }
}

#else /* not x86-64 */

int md5_lanes(void) { return 0; }

#endif

/* ---------------------------------------------------------------- module */

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_md5", "Multi-buffer MD5; its functions are called through ctypes.", 0, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__md5(void) { return PyModule_Create(&module); }

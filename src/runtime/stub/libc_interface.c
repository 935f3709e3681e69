/* What tcc's linker sees of the C library: names without code. See libc_functions.txt, from which the build makes the list. */
#define TCC_FUNCTION(name) __asm__(".globl " #name "\n.type " #name ", @function\n" #name ":\n.byte 0");
#include "libc_functions.inc"

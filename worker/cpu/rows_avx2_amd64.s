#include "go_asm.h"
#include "textflag.h"

// Weights times rows of activations with AVX2 and FMA. A dot product is one vector of 8 sums, to which the columns of a row
// are added 8 at a time in ascending order with one rounding each (FMA), and which folds in halves at the end: lane i +
// lane i+4, i + i+2, then the last two. Weights are dequantised first, by FMA too. Products of one row of activations and of
// many do the same, so they give the same bits.

// Lane i of a broadcast word (8 codes of 4 bits) is moved by 4*i bits.
DATA nibbleShift<>+0(SB)/8, $0x0000000400000000
DATA nibbleShift<>+8(SB)/8, $0x0000000c00000008
DATA nibbleShift<>+16(SB)/8, $0x0000001400000010
DATA nibbleShift<>+24(SB)/8, $0x0000001c00000018
GLOBL nibbleShift<>(SB), RODATA|NOPTR, $32

DATA nibbleMask<>+0(SB)/4, $15
GLOBL nibbleMask<>(SB), RODATA|NOPTR, $4

// BEGIN takes over a gemvArgs: four rows of weights R8 to R11, bytes of a row R13, activations SI, scales
// BX and biases DI of group 0 in row 0, those of rows 1 to 3 DX, 2*DX and R15 bytes behind; R14 holds the arguments.
#define BEGIN \
	MOVQ args+0(FP), R14                   \
	MOVQ gemvArgs_w(R14), R8               \
	MOVQ gemvArgs_stride(R14), R13         \
	MOVQ gemvArgs_x(R14), SI               \
	MOVQ gemvArgs_scale(R14), BX           \
	MOVQ gemvArgs_bias(R14), DI            \
	MOVQ gemvArgs_groups(R14), DX          \
	SHLQ $2, DX                            \
	LEAQ (DX)(DX*2), R15

#define CLEAR4(a, b, c, d) \
	VPXOR a, a, a \
	VPXOR b, b, b \
	VPXOR c, c, c \
	VPXOR d, d, d

// FOUR points R9 to R11 at the rows after R8, at most at the last one, R12 at what is wanted in the cache soon, and clears the sums Y0 to Y3 and the byte AX.
#define FOUR \
	LEAQ 8192(R8), R12     \
	LEAQ (R8)(R13*1), R9   \
	CMPQ R9, gemvArgs_last(R14)     \
	CMOVQHI gemvArgs_last(R14), R9  \
	LEAQ (R9)(R13*1), R10  \
	CMPQ R10, gemvArgs_last(R14)    \
	CMOVQHI gemvArgs_last(R14), R10 \
	LEAQ (R10)(R13*1), R11 \
	CMPQ R11, gemvArgs_last(R14)    \
	CMOVQHI gemvArgs_last(R14), R11 \
	CLEAR4(Y0, Y1, Y2, Y3) \
	XORQ AX, AX

// FOLD leaves the sums of four vectors in xa, the low half of a; t and u are lost, xt is the low half of t.
#define FOLD(a, b, c, d, t, u, xa, xt) \
	VPERM2F128 $0x20, b, a, t  \
	VPERM2F128 $0x31, b, a, u  \
	VADDPS u, t, a             \
	VPERM2F128 $0x20, d, c, t  \
	VPERM2F128 $0x31, d, c, u  \
	VADDPS u, t, c             \
	VUNPCKLPD c, a, t          \
	VUNPCKHPD c, a, u          \
	VADDPS u, t, a             \
	VPERMILPS $0xb1, a, t      \
	VADDPS t, a, a             \
	VEXTRACTF128 $1, a, xt     \
	VBLENDPS $0x0a, xt, xa, xa

// STORE writes the results of four rows and goes to the next four, if there are any.
#define STORE(next) \
	FOLD(Y0, Y1, Y2, Y3, Y12, Y13, X0, X12) \
	MOVQ gemvArgs_y(R14), CX      \
	VMOVUPS X0, (CX)              \
	ADDQ $16, CX                  \
	MOVQ CX, gemvArgs_y(R14)      \
	LEAQ (R8)(R13*4), R8          \
	SUBQ $4, gemvArgs_rows(R14)   \
	JG next                       \
	VZEROUPPER                    \
	RET

// SCALES loads those of a group: Y4 to Y7, and the biases Y8 to Y11.
#define SCALES \
	VBROADCASTSS (BX), Y4          \
	VBROADCASTSS (BX)(DX*1), Y5    \
	VBROADCASTSS (BX)(DX*2), Y6    \
	VBROADCASTSS (BX)(R15*1), Y7   \
	VBROADCASTSS (DI), Y8          \
	VBROADCASTSS (DI)(DX*1), Y9    \
	VBROADCASTSS (DI)(DX*2), Y10   \
	VBROADCASTSS (DI)(R15*1), Y11

// CODES leaves 8 codes of 4 bits in Y13.
#define CODES(w) \
	VPBROADCASTD w, Y13   \
	VPSRLVD Y14, Y13, Y13 \
	VPAND Y15, Y13, Y13   \
	VCVTDQ2PS Y13, Y13

// NIBBLES adds 8 columns of one row, whose activations are Y12.
#define NIBBLES(w, scale, bias, acc) \
	CODES(w)                      \
	VFMADD213PS bias, scale, Y13  \
	VFMADD231PS Y12, Y13, acc

// BYTES adds 8 columns of one row, whose activations are Y12.
#define BYTES(w, scale, bias, acc) \
	VPMOVZXBD w, Y13              \
	VCVTDQ2PS Y13, Y13            \
	VFMADD213PS bias, scale, Y13  \
	VFMADD231PS Y12, Y13, acc

// BRAIN adds 8 columns of one row of bf16, whose activations are Y12.
#define BRAIN(w, acc) \
	VPMOVZXWD w, Y13          \
	VPSLLD $16, Y13, Y13      \
	VFMADD231PS Y12, Y13, acc

// func gemvNibblesAVX2(args *gemvArgs)
//
// for four rows: for each group: for 32 columns, 8 at a time: dequantise and add.
TEXT ·gemvNibblesAVX2(SB), NOSPLIT, $0-8
	BEGIN
	VMOVUPS nibbleShift<>(SB), Y14
	VPBROADCASTD nibbleMask<>(SB), Y15
rows:
	FOUR
group:
	SCALES
	MOVQ gemvArgs_blocks(R14), CX
columns:
	PREFETCHT0 (R12)(AX*4)
	VMOVUPS (SI)(AX*8), Y12
	NIBBLES((R8)(AX*1), Y4, Y8, Y0)
	NIBBLES((R9)(AX*1), Y5, Y9, Y1)
	NIBBLES((R10)(AX*1), Y6, Y10, Y2)
	NIBBLES((R11)(AX*1), Y7, Y11, Y3)
	VMOVUPS 32(SI)(AX*8), Y12
	NIBBLES(4(R8)(AX*1), Y4, Y8, Y0)
	NIBBLES(4(R9)(AX*1), Y5, Y9, Y1)
	NIBBLES(4(R10)(AX*1), Y6, Y10, Y2)
	NIBBLES(4(R11)(AX*1), Y7, Y11, Y3)
	VMOVUPS 64(SI)(AX*8), Y12
	NIBBLES(8(R8)(AX*1), Y4, Y8, Y0)
	NIBBLES(8(R9)(AX*1), Y5, Y9, Y1)
	NIBBLES(8(R10)(AX*1), Y6, Y10, Y2)
	NIBBLES(8(R11)(AX*1), Y7, Y11, Y3)
	VMOVUPS 96(SI)(AX*8), Y12
	NIBBLES(12(R8)(AX*1), Y4, Y8, Y0)
	NIBBLES(12(R9)(AX*1), Y5, Y9, Y1)
	NIBBLES(12(R10)(AX*1), Y6, Y10, Y2)
	NIBBLES(12(R11)(AX*1), Y7, Y11, Y3)
	ADDQ $16, AX
	DECQ CX
	JNZ columns
	ADDQ $4, BX
	ADDQ $4, DI
	CMPQ AX, R13
	JLT group
	ADDQ R15, BX
	ADDQ R15, DI
	STORE(rows)

// func gemvBytesAVX2(args *gemvArgs)
//
// for four rows: for each group: for 32 columns, 8 at a time: dequantise and add.
TEXT ·gemvBytesAVX2(SB), NOSPLIT, $0-8
	BEGIN
rows:
	FOUR
group:
	SCALES
	MOVQ gemvArgs_blocks(R14), CX
columns:
	PREFETCHT0 (R12)(AX*4)
	PREFETCHT0 64(R12)(AX*4)
	VMOVUPS (SI)(AX*4), Y12
	BYTES((R8)(AX*1), Y4, Y8, Y0)
	BYTES((R9)(AX*1), Y5, Y9, Y1)
	BYTES((R10)(AX*1), Y6, Y10, Y2)
	BYTES((R11)(AX*1), Y7, Y11, Y3)
	VMOVUPS 32(SI)(AX*4), Y12
	BYTES(8(R8)(AX*1), Y4, Y8, Y0)
	BYTES(8(R9)(AX*1), Y5, Y9, Y1)
	BYTES(8(R10)(AX*1), Y6, Y10, Y2)
	BYTES(8(R11)(AX*1), Y7, Y11, Y3)
	VMOVUPS 64(SI)(AX*4), Y12
	BYTES(16(R8)(AX*1), Y4, Y8, Y0)
	BYTES(16(R9)(AX*1), Y5, Y9, Y1)
	BYTES(16(R10)(AX*1), Y6, Y10, Y2)
	BYTES(16(R11)(AX*1), Y7, Y11, Y3)
	VMOVUPS 96(SI)(AX*4), Y12
	BYTES(24(R8)(AX*1), Y4, Y8, Y0)
	BYTES(24(R9)(AX*1), Y5, Y9, Y1)
	BYTES(24(R10)(AX*1), Y6, Y10, Y2)
	BYTES(24(R11)(AX*1), Y7, Y11, Y3)
	ADDQ $32, AX
	DECQ CX
	JNZ columns
	ADDQ $4, BX
	ADDQ $4, DI
	CMPQ AX, R13
	JLT group
	ADDQ R15, BX
	ADDQ R15, DI
	STORE(rows)

// func gemvBF16AVX2(args *gemvArgs)
TEXT ·gemvBF16AVX2(SB), NOSPLIT, $0-8
	BEGIN
rows:
	FOUR
columns:
	PREFETCHT0 (R12)(AX*4)
	PREFETCHT0 64(R12)(AX*4)
	VMOVUPS (SI)(AX*2), Y12
	BRAIN((R8)(AX*1), Y0)
	BRAIN((R9)(AX*1), Y1)
	BRAIN((R10)(AX*1), Y2)
	BRAIN((R11)(AX*1), Y3)
	VMOVUPS 32(SI)(AX*2), Y12
	BRAIN(16(R8)(AX*1), Y0)
	BRAIN(16(R9)(AX*1), Y1)
	BRAIN(16(R10)(AX*1), Y2)
	BRAIN(16(R11)(AX*1), Y3)
	ADDQ $32, AX
	CMPQ AX, R13
	JLT columns
	STORE(rows)

// func gemvF32AVX2(args *gemvArgs)
TEXT ·gemvF32AVX2(SB), NOSPLIT, $0-8
	BEGIN
rows:
	FOUR
columns:
	VMOVUPS (SI)(AX*1), Y12
	VFMADD231PS (R8)(AX*1), Y12, Y0
	VFMADD231PS (R9)(AX*1), Y12, Y1
	VFMADD231PS (R10)(AX*1), Y12, Y2
	VFMADD231PS (R11)(AX*1), Y12, Y3
	VMOVUPS 32(SI)(AX*1), Y12
	VFMADD231PS 32(R8)(AX*1), Y12, Y0
	VFMADD231PS 32(R9)(AX*1), Y12, Y1
	VFMADD231PS 32(R10)(AX*1), Y12, Y2
	VFMADD231PS 32(R11)(AX*1), Y12, Y3
	ADDQ $64, AX
	CMPQ AX, R13
	JLT columns
	STORE(rows)

// UNPACK takes over an unpackArgs: row R8 of R13 bytes, scales BX, biases DI, place R9 of the first vector in the tile.
#define UNPACK \
	MOVQ args+0(FP), R14             \
	MOVQ unpackArgs_w(R14), R8       \
	MOVQ unpackArgs_bytes(R14), R13  \
	MOVQ unpackArgs_scale(R14), BX   \
	MOVQ unpackArgs_bias(R14), DI    \
	MOVQ unpackArgs_blocks(R14), DX  \
	MOVQ unpackArgs_tile(R14), R9    \
	XORQ AX, AX

// func unpackNibblesAVX2(args *unpackArgs)
TEXT ·unpackNibblesAVX2(SB), NOSPLIT, $0-8
	UNPACK
	VMOVUPS nibbleShift<>(SB), Y14
	VPBROADCASTD nibbleMask<>(SB), Y15
group:
	VBROADCASTSS (BX), Y4
	VBROADCASTSS (DI), Y5
	MOVQ DX, CX
columns:
	PREFETCHT0 4096(R8)(AX*1)
	CODES((R8)(AX*1))
	VFMADD213PS Y5, Y4, Y13
	VMOVUPS Y13, (R9)
	CODES(4(R8)(AX*1))
	VFMADD213PS Y5, Y4, Y13
	VMOVUPS Y13, 32(R9)
	CODES(8(R8)(AX*1))
	VFMADD213PS Y5, Y4, Y13
	VMOVUPS Y13, 256(R9)
	CODES(12(R8)(AX*1))
	VFMADD213PS Y5, Y4, Y13
	VMOVUPS Y13, 288(R9)
	ADDQ $512, R9
	ADDQ $16, AX
	DECQ CX
	JNZ columns
	ADDQ $4, BX
	ADDQ $4, DI
	CMPQ AX, R13
	JLT group
	VZEROUPPER
	RET

// func unpackBytesAVX2(args *unpackArgs)
TEXT ·unpackBytesAVX2(SB), NOSPLIT, $0-8
	UNPACK
group:
	VBROADCASTSS (BX), Y4
	VBROADCASTSS (DI), Y5
	MOVQ DX, CX
columns:
	PREFETCHT0 4096(R8)(AX*1)
	VPMOVZXBD (R8)(AX*1), Y13
	VCVTDQ2PS Y13, Y13
	VFMADD213PS Y5, Y4, Y13
	VMOVUPS Y13, (R9)
	VPMOVZXBD 8(R8)(AX*1), Y13
	VCVTDQ2PS Y13, Y13
	VFMADD213PS Y5, Y4, Y13
	VMOVUPS Y13, 32(R9)
	VPMOVZXBD 16(R8)(AX*1), Y13
	VCVTDQ2PS Y13, Y13
	VFMADD213PS Y5, Y4, Y13
	VMOVUPS Y13, 256(R9)
	VPMOVZXBD 24(R8)(AX*1), Y13
	VCVTDQ2PS Y13, Y13
	VFMADD213PS Y5, Y4, Y13
	VMOVUPS Y13, 288(R9)
	ADDQ $512, R9
	ADDQ $32, AX
	DECQ CX
	JNZ columns
	ADDQ $4, BX
	ADDQ $4, DI
	CMPQ AX, R13
	JLT group
	VZEROUPPER
	RET

// func unpackBF16AVX2(args *unpackArgs)
TEXT ·unpackBF16AVX2(SB), NOSPLIT, $0-8
	UNPACK
columns:
	PREFETCHT0 4096(R8)(AX*1)
	VPMOVZXWD (R8)(AX*1), Y0
	VPMOVZXWD 16(R8)(AX*1), Y1
	VPSLLD $16, Y0, Y0
	VPSLLD $16, Y1, Y1
	VMOVUPS Y0, (R9)
	VMOVUPS Y1, 32(R9)
	ADDQ $256, R9
	ADDQ $32, AX
	CMPQ AX, R13
	JLT columns
	VZEROUPPER
	RET

// func unpackF32AVX2(args *unpackArgs)
TEXT ·unpackF32AVX2(SB), NOSPLIT, $0-8
	UNPACK
columns:
	PREFETCHT0 4096(R8)(AX*1)
	VMOVUPS (R8)(AX*1), Y0
	VMOVUPS 32(R8)(AX*1), Y1
	VMOVUPS Y0, (R9)
	VMOVUPS Y1, 32(R9)
	ADDQ $256, R9
	ADDQ $64, AX
	CMPQ AX, R13
	JLT columns
	VZEROUPPER
	RET

// ADD3 adds 8 columns of one row of weights times three rows of activations, Y12 to Y14.
#define ADD3(w, a, b, c) \
	VMOVUPS w, Y15          \
	VFMADD231PS Y12, Y15, a \
	VFMADD231PS Y13, Y15, b \
	VFMADD231PS Y14, Y15, c

// func mulTileAVX2(args *tileArgs)
//
// for three rows of activations R9 to R11: for 8 columns: 7 loads, 12 FMAs into Y0 to Y11 (four sums for each row of
// activations). A single row that is left comes last.
// Sums of a part of the columns wait in memory for the next part.
TEXT ·mulTileAVX2(SB), NOSPLIT, $0-8
	MOVQ args+0(FP), DI
	MOVQ tileArgs_w(DI), R8
	MOVQ tileArgs_x(DI), BX
	MOVQ tileArgs_offsets(DI), SI
	MOVQ tileArgs_rows(DI), CX
	MOVQ tileArgs_bytes(DI), R13
	MOVQ tileArgs_y(DI), R14
	MOVQ tileArgs_stride(DI), R15
	MOVQ tileArgs_sums(DI), DX
	CMPQ CX, $1
	JEQ one
three:
	MOVQ (SI), R9
	MOVQ 8(SI), R10
	MOVQ 16(SI), R11
	ADDQ BX, R9
	ADDQ BX, R10
	ADDQ BX, R11
	CMPQ tileArgs_first(DI), $0
	JEQ load
	CLEAR4(Y0, Y1, Y2, Y3)
	CLEAR4(Y4, Y5, Y6, Y7)
	CLEAR4(Y8, Y9, Y10, Y11)
	JMP start
load:
	VMOVUPS (DX), Y0
	VMOVUPS 32(DX), Y1
	VMOVUPS 64(DX), Y2
	VMOVUPS 96(DX), Y3
	VMOVUPS 128(DX), Y4
	VMOVUPS 160(DX), Y5
	VMOVUPS 192(DX), Y6
	VMOVUPS 224(DX), Y7
	VMOVUPS 256(DX), Y8
	VMOVUPS 288(DX), Y9
	VMOVUPS 320(DX), Y10
	VMOVUPS 352(DX), Y11
start:
	XORQ AX, AX
columns:
	VMOVUPS (R9)(AX*1), Y12
	VMOVUPS (R10)(AX*1), Y13
	VMOVUPS (R11)(AX*1), Y14
	ADD3((R8)(AX*4), Y0, Y4, Y8)
	ADD3(64(R8)(AX*4), Y1, Y5, Y9)
	ADD3(128(R8)(AX*4), Y2, Y6, Y10)
	ADD3(192(R8)(AX*4), Y3, Y7, Y11)
	VMOVUPS 32(R9)(AX*1), Y12
	VMOVUPS 32(R10)(AX*1), Y13
	VMOVUPS 32(R11)(AX*1), Y14
	ADD3(32(R8)(AX*4), Y0, Y4, Y8)
	ADD3(96(R8)(AX*4), Y1, Y5, Y9)
	ADD3(160(R8)(AX*4), Y2, Y6, Y10)
	ADD3(224(R8)(AX*4), Y3, Y7, Y11)
	ADDQ $64, AX
	CMPQ AX, R13
	JLT columns
	CMPQ tileArgs_last(DI), $0
	JEQ save
	FOLD(Y0, Y1, Y2, Y3, Y12, Y13, X0, X12)
	FOLD(Y4, Y5, Y6, Y7, Y14, Y15, X4, X14)
	FOLD(Y8, Y9, Y10, Y11, Y12, Y13, X8, X12)
	VMOVUPS X0, (R14)
	VMOVUPS X4, (R14)(R15*1)
	VMOVUPS X8, (R14)(R15*2)
	JMP next
save:
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, 32(DX)
	VMOVUPS Y2, 64(DX)
	VMOVUPS Y3, 96(DX)
	VMOVUPS Y4, 128(DX)
	VMOVUPS Y5, 160(DX)
	VMOVUPS Y6, 192(DX)
	VMOVUPS Y7, 224(DX)
	VMOVUPS Y8, 256(DX)
	VMOVUPS Y9, 288(DX)
	VMOVUPS Y10, 320(DX)
	VMOVUPS Y11, 352(DX)
next:
	LEAQ (R14)(R15*2), R14
	ADDQ R15, R14
	ADDQ $384, DX
	ADDQ $24, SI
	SUBQ $3, CX
	CMPQ CX, $1
	JGT three
	JLT done
one:
	MOVQ (SI), R9
	ADDQ BX, R9
	CMPQ tileArgs_first(DI), $0
	JEQ load1
	CLEAR4(Y0, Y1, Y2, Y3)
	JMP start1
load1:
	VMOVUPS (DX), Y0
	VMOVUPS 32(DX), Y1
	VMOVUPS 64(DX), Y2
	VMOVUPS 96(DX), Y3
start1:
	XORQ AX, AX
columns1:
	VMOVUPS (R9)(AX*1), Y12
	VFMADD231PS (R8)(AX*4), Y12, Y0
	VFMADD231PS 64(R8)(AX*4), Y12, Y1
	VFMADD231PS 128(R8)(AX*4), Y12, Y2
	VFMADD231PS 192(R8)(AX*4), Y12, Y3
	VMOVUPS 32(R9)(AX*1), Y12
	VFMADD231PS 32(R8)(AX*4), Y12, Y0
	VFMADD231PS 96(R8)(AX*4), Y12, Y1
	VFMADD231PS 160(R8)(AX*4), Y12, Y2
	VFMADD231PS 224(R8)(AX*4), Y12, Y3
	ADDQ $64, AX
	CMPQ AX, R13
	JLT columns1
	CMPQ tileArgs_last(DI), $0
	JEQ save1
	FOLD(Y0, Y1, Y2, Y3, Y12, Y13, X0, X12)
	VMOVUPS X0, (R14)
	JMP done
save1:
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, 32(DX)
	VMOVUPS Y2, 64(DX)
	VMOVUPS Y3, 96(DX)
done:
	VZEROUPPER
	RET

// func widenBF16AVX2(dst *float32, src *byte, n int)
//
// Whole vectors of 16 only.
TEXT ·widenBF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	TESTQ CX, CX
	JLE done
loop:
	VPMOVZXWD (SI), Y0
	VPMOVZXWD 16(SI), Y1
	VPSLLD $16, Y0, Y0
	VPSLLD $16, Y1, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ $32, SI
	ADDQ $64, DI
	SUBQ $16, CX
	JG loop
done:
	VZEROUPPER
	RET

#include "go_asm.h"
#include "textflag.h"

// Weights times rows of activations with AVX-512. A vector is 16 columns; a dot product is one vector of sums, to which
// the vectors of a row are added in ascending order with one rounding each (FMA), and which fold in halves at the end:
// lane i + lane i+8, i + i+4, i + i+2, then the last two. Weights are dequantised first, by FMA too. Products of one row
// of activations and of many do the same, so they give the same bits.

// Lane i of a broadcast pair of words (16 codes of 4 bits) begins at bit 4*i.
DATA nibbleAt<>+0(SB)/8, $0x0404040400000000
DATA nibbleAt<>+8(SB)/8, $0x0c0c0c0c08080808
DATA nibbleAt<>+16(SB)/8, $0x1414141410101010
DATA nibbleAt<>+24(SB)/8, $0x1c1c1c1c18181818
DATA nibbleAt<>+32(SB)/8, $0x2424242420202020
DATA nibbleAt<>+40(SB)/8, $0x2c2c2c2c28282828
DATA nibbleAt<>+48(SB)/8, $0x3434343430303030
DATA nibbleAt<>+56(SB)/8, $0x3c3c3c3c38383838
GLOBL nibbleAt<>(SB), RODATA|NOPTR, $64

// 0 to 15 as floats.
DATA codes<>+0(SB)/8, $0x3f80000000000000
DATA codes<>+8(SB)/8, $0x4040000040000000
DATA codes<>+16(SB)/8, $0x40a0000040800000
DATA codes<>+24(SB)/8, $0x40e0000040c00000
DATA codes<>+32(SB)/8, $0x4110000041000000
DATA codes<>+40(SB)/8, $0x4130000041200000
DATA codes<>+48(SB)/8, $0x4150000041400000
DATA codes<>+56(SB)/8, $0x4170000041600000
GLOBL codes<>(SB), RODATA|NOPTR, $64

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

// FOUR points R9 to R11 at the rows after R8, at most at the last one, R12 at what is wanted in the cache soon, and clears the sums Z0 to Z3 and the byte AX.
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
	VPXORQ Z0, Z0, Z0      \
	VPXORQ Z1, Z1, Z1      \
	VPXORQ Z2, Z2, Z2      \
	VPXORQ Z3, Z3, Z3      \
	XORQ AX, AX

// FOLD adds halves and quarters of four vectors: lane of 128 bits i of a is what is left of vector i. t and u are lost.
#define FOLD(a, b, c, d, t, u) \
	VSHUFF32X4 $0x44, b, a, t \
	VSHUFF32X4 $0xee, b, a, u \
	VADDPS u, t, a            \
	VSHUFF32X4 $0x44, d, c, t \
	VSHUFF32X4 $0xee, d, c, u \
	VADDPS u, t, c            \
	VSHUFF32X4 $0x88, c, a, t \
	VSHUFF32X4 $0xdd, c, a, u \
	VADDPS u, t, a

// STORE writes the results of four rows and goes to the next four, if there are any.
#define STORE(next) \
	FOLD(Z0, Z1, Z2, Z3, Z4, Z5)  \
	VPERMILPS $0x4e, Z0, Z4       \
	VADDPS Z4, Z0, Z0             \
	VPERMILPS $0xb1, Z0, Z4       \
	VADDPS Z4, Z0, Z0             \
	VCOMPRESSPS Z0, K1, Z0        \
	MOVQ gemvArgs_y(R14), CX      \
	VMOVUPS X0, (CX)              \
	ADDQ $16, CX                  \
	MOVQ CX, gemvArgs_y(R14)      \
	LEAQ (R8)(R13*4), R8          \
	SUBQ $4, gemvArgs_rows(R14)   \
	JG next                       \
	VZEROUPPER                    \
	RET

// firstLanes picks the first element of each 128 bits.
#define FIRSTLANES \
	MOVL $0x1111, AX \
	KMOVW AX, K1

// TABLE makes the 16 weights that the codes of a group stand for.
#define TABLE(scale, bias, table) \
	VBROADCASTSS bias, table           \
	VFMADD231PS.BCST scale, Z31, table

// NIBBLES adds 16 columns of one row.
#define NIBBLES(codes, table, x, tmp, acc) \
	VPMULTISHIFTQB.BCST codes, Z30, tmp \
	VPERMPS table, tmp, tmp             \
	VFMADD231PS x, tmp, acc

// func gemvNibblesAVX512(args *gemvArgs)
//
// for four rows: for each group: four tables of weights; for 32 columns: one permutation and one FMA for 16 weights.
TEXT ·gemvNibblesAVX512(SB), NOSPLIT, $0-8
	BEGIN
	FIRSTLANES
	VMOVUPS nibbleAt<>(SB), Z30
	VMOVUPS codes<>(SB), Z31
rows:
	FOUR
group:
	TABLE((BX), (DI), Z8)
	TABLE((BX)(DX*1), (DI)(DX*1), Z9)
	TABLE((BX)(DX*2), (DI)(DX*2), Z10)
	TABLE((BX)(R15*1), (DI)(R15*1), Z11)
	MOVQ gemvArgs_blocks(R14), CX
columns:
	VMOVUPS (SI)(AX*8), Z16
	VMOVUPS 64(SI)(AX*8), Z17
	PREFETCHT0 (R12)(AX*4)
	NIBBLES((R8)(AX*1), Z8, Z16, Z20, Z0)
	NIBBLES((R9)(AX*1), Z9, Z16, Z21, Z1)
	NIBBLES((R10)(AX*1), Z10, Z16, Z22, Z2)
	NIBBLES((R11)(AX*1), Z11, Z16, Z23, Z3)
	NIBBLES(8(R8)(AX*1), Z8, Z17, Z24, Z0)
	NIBBLES(8(R9)(AX*1), Z9, Z17, Z25, Z1)
	NIBBLES(8(R10)(AX*1), Z10, Z17, Z26, Z2)
	NIBBLES(8(R11)(AX*1), Z11, Z17, Z27, Z3)
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

// BYTES adds 16 columns of one row.
#define BYTES(codes, scale, bias, x, tmp, acc) \
	VPMOVZXBD codes, tmp           \
	VCVTDQ2PS tmp, tmp             \
	VFMADD213PS bias, scale, tmp   \
	VFMADD231PS x, tmp, acc

// func gemvBytesAVX512(args *gemvArgs)
TEXT ·gemvBytesAVX512(SB), NOSPLIT, $0-8
	BEGIN
	FIRSTLANES
rows:
	FOUR
group:
	VBROADCASTSS (BX), Z8
	VBROADCASTSS (BX)(DX*1), Z9
	VBROADCASTSS (BX)(DX*2), Z10
	VBROADCASTSS (BX)(R15*1), Z11
	VBROADCASTSS (DI), Z12
	VBROADCASTSS (DI)(DX*1), Z13
	VBROADCASTSS (DI)(DX*2), Z14
	VBROADCASTSS (DI)(R15*1), Z15
	MOVQ gemvArgs_blocks(R14), CX
columns:
	PREFETCHT0 (R12)(AX*4)
	PREFETCHT0 64(R12)(AX*4)
	VMOVUPS (SI)(AX*4), Z16
	VMOVUPS 64(SI)(AX*4), Z17
	BYTES((R8)(AX*1), Z8, Z12, Z16, Z20, Z0)
	BYTES((R9)(AX*1), Z9, Z13, Z16, Z21, Z1)
	BYTES((R10)(AX*1), Z10, Z14, Z16, Z22, Z2)
	BYTES((R11)(AX*1), Z11, Z15, Z16, Z23, Z3)
	BYTES(16(R8)(AX*1), Z8, Z12, Z17, Z24, Z0)
	BYTES(16(R9)(AX*1), Z9, Z13, Z17, Z25, Z1)
	BYTES(16(R10)(AX*1), Z10, Z14, Z17, Z26, Z2)
	BYTES(16(R11)(AX*1), Z11, Z15, Z17, Z27, Z3)
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

// BRAIN adds 16 columns of one row of bf16.
#define BRAIN(w, x, tmp, acc) \
	VPMOVZXWD w, tmp        \
	VPSLLD $16, tmp, tmp    \
	VFMADD231PS x, tmp, acc

// func gemvBF16AVX512(args *gemvArgs)
TEXT ·gemvBF16AVX512(SB), NOSPLIT, $0-8
	BEGIN
	FIRSTLANES
rows:
	FOUR
columns:
	PREFETCHT0 (R12)(AX*4)
	PREFETCHT0 64(R12)(AX*4)
	VMOVUPS (SI)(AX*2), Z16
	BRAIN((R8)(AX*1), Z16, Z20, Z0)
	BRAIN((R9)(AX*1), Z16, Z21, Z1)
	BRAIN((R10)(AX*1), Z16, Z22, Z2)
	BRAIN((R11)(AX*1), Z16, Z23, Z3)
	ADDQ $32, AX
	CMPQ AX, R13
	JLT columns
	STORE(rows)

// HALF adds 16 columns of one row of fp16.
#define HALF(w, x, tmp, acc) \
	VCVTPH2PS w, tmp        \
	VFMADD231PS x, tmp, acc

// func gemvF16AVX512(args *gemvArgs)
TEXT ·gemvF16AVX512(SB), NOSPLIT, $0-8
	BEGIN
	FIRSTLANES
rows:
	FOUR
columns:
	PREFETCHT0 (R12)(AX*4)
	PREFETCHT0 64(R12)(AX*4)
	VMOVUPS (SI)(AX*2), Z16
	HALF((R8)(AX*1), Z16, Z20, Z0)
	HALF((R9)(AX*1), Z16, Z21, Z1)
	HALF((R10)(AX*1), Z16, Z22, Z2)
	HALF((R11)(AX*1), Z16, Z23, Z3)
	ADDQ $32, AX
	CMPQ AX, R13
	JLT columns
	STORE(rows)

// func gemvF32AVX512(args *gemvArgs)
TEXT ·gemvF32AVX512(SB), NOSPLIT, $0-8
	BEGIN
	FIRSTLANES
rows:
	FOUR
columns:
	VMOVUPS (SI)(AX*1), Z16
	VFMADD231PS (R8)(AX*1), Z16, Z0
	VFMADD231PS (R9)(AX*1), Z16, Z1
	VFMADD231PS (R10)(AX*1), Z16, Z2
	VFMADD231PS (R11)(AX*1), Z16, Z3
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

// func unpackNibblesAVX512(args *unpackArgs)
TEXT ·unpackNibblesAVX512(SB), NOSPLIT, $0-8
	UNPACK
	VMOVUPS nibbleAt<>(SB), Z30
	VMOVUPS codes<>(SB), Z31
group:
	TABLE((BX), (DI), Z8)
	MOVQ DX, CX
columns:
	PREFETCHT0 4096(R8)(AX*1)
	VPMULTISHIFTQB.BCST (R8)(AX*1), Z30, Z0
	VPMULTISHIFTQB.BCST 8(R8)(AX*1), Z30, Z1
	VPERMPS Z8, Z0, Z0
	VPERMPS Z8, Z1, Z1
	VMOVUPS Z0, (R9)
	VMOVUPS Z1, 256(R9)
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

// func unpackBytesAVX512(args *unpackArgs)
TEXT ·unpackBytesAVX512(SB), NOSPLIT, $0-8
	UNPACK
group:
	VBROADCASTSS (BX), Z8
	VBROADCASTSS (DI), Z9
	MOVQ DX, CX
columns:
	PREFETCHT0 4096(R8)(AX*1)
	VPMOVZXBD (R8)(AX*1), Z0
	VPMOVZXBD 16(R8)(AX*1), Z1
	VCVTDQ2PS Z0, Z0
	VCVTDQ2PS Z1, Z1
	VFMADD213PS Z9, Z8, Z0
	VFMADD213PS Z9, Z8, Z1
	VMOVUPS Z0, (R9)
	VMOVUPS Z1, 256(R9)
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

// func unpackBF16AVX512(args *unpackArgs)
TEXT ·unpackBF16AVX512(SB), NOSPLIT, $0-8
	UNPACK
columns:
	PREFETCHT0 4096(R8)(AX*1)
	VPMOVZXWD (R8)(AX*1), Z0
	VPSLLD $16, Z0, Z0
	VMOVUPS Z0, (R9)
	ADDQ $256, R9
	ADDQ $32, AX
	CMPQ AX, R13
	JLT columns
	VZEROUPPER
	RET

// func unpackF16AVX512(args *unpackArgs)
TEXT ·unpackF16AVX512(SB), NOSPLIT, $0-8
	UNPACK
columns:
	PREFETCHT0 4096(R8)(AX*1)
	VCVTPH2PS (R8)(AX*1), Z0
	VMOVUPS Z0, (R9)
	ADDQ $256, R9
	ADDQ $32, AX
	CMPQ AX, R13
	JLT columns
	VZEROUPPER
	RET

// func unpackF32AVX512(args *unpackArgs)
TEXT ·unpackF32AVX512(SB), NOSPLIT, $0-8
	UNPACK
columns:
	PREFETCHT0 4096(R8)(AX*1)
	VMOVUPS (R8)(AX*1), Z0
	VMOVUPS Z0, (R9)
	ADDQ $256, R9
	ADDQ $64, AX
	CMPQ AX, R13
	JLT columns
	VZEROUPPER
	RET

// ADD4 adds a vector of one row of activations times four rows of weights, Z16 to Z19.
#define ADD4(x, a, b, c, d) \
	VMOVUPS x, Z20         \
	VFMADD231PS Z20, Z16, a \
	VFMADD231PS Z20, Z17, b \
	VFMADD231PS Z20, Z18, c \
	VFMADD231PS Z20, Z19, d

#define CLEAR4(a, b, c, d) \
	VPXORQ a, a, a \
	VPXORQ b, b, b \
	VPXORQ c, c, c \
	VPXORQ d, d, d

// func mulTileAVX512(args *tileArgs)
//
// for four rows of activations R9 to R12: for each vector: 8 loads, 16 FMAs into Z0 to Z15 (four sums for each weight row).
// A single row that is left comes last.
// Sums of a part of the columns wait in memory for the next part.
TEXT ·mulTileAVX512(SB), NOSPLIT, $0-8
	MOVQ args+0(FP), DI
	MOVQ tileArgs_w(DI), R8
	MOVQ tileArgs_x(DI), BX
	MOVQ tileArgs_offsets(DI), SI
	MOVQ tileArgs_rows(DI), CX
	MOVQ tileArgs_bytes(DI), R13
	MOVQ tileArgs_y(DI), R14
	MOVQ tileArgs_stride(DI), R15
	MOVQ tileArgs_sums(DI), DX
	MOVL $0x1111, AX
	KMOVW AX, K1
	CMPQ CX, $1
	JEQ one
four:
	MOVQ (SI), R9
	MOVQ 8(SI), R10
	MOVQ 16(SI), R11
	MOVQ 24(SI), R12
	ADDQ BX, R9
	ADDQ BX, R10
	ADDQ BX, R11
	ADDQ BX, R12
	CMPQ tileArgs_first(DI), $0
	JEQ load
	CLEAR4(Z0, Z1, Z2, Z3)
	CLEAR4(Z4, Z5, Z6, Z7)
	CLEAR4(Z8, Z9, Z10, Z11)
	CLEAR4(Z12, Z13, Z14, Z15)
	JMP start
load:
	VMOVUPS (DX), Z0
	VMOVUPS 64(DX), Z1
	VMOVUPS 128(DX), Z2
	VMOVUPS 192(DX), Z3
	VMOVUPS 256(DX), Z4
	VMOVUPS 320(DX), Z5
	VMOVUPS 384(DX), Z6
	VMOVUPS 448(DX), Z7
	VMOVUPS 512(DX), Z8
	VMOVUPS 576(DX), Z9
	VMOVUPS 640(DX), Z10
	VMOVUPS 704(DX), Z11
	VMOVUPS 768(DX), Z12
	VMOVUPS 832(DX), Z13
	VMOVUPS 896(DX), Z14
	VMOVUPS 960(DX), Z15
start:
	XORQ AX, AX
columns:
	VMOVUPS (R8)(AX*4), Z16
	VMOVUPS 64(R8)(AX*4), Z17
	VMOVUPS 128(R8)(AX*4), Z18
	VMOVUPS 192(R8)(AX*4), Z19
	ADD4((R9)(AX*1), Z0, Z4, Z8, Z12)
	ADD4((R10)(AX*1), Z1, Z5, Z9, Z13)
	ADD4((R11)(AX*1), Z2, Z6, Z10, Z14)
	ADD4((R12)(AX*1), Z3, Z7, Z11, Z15)
	ADDQ $64, AX
	CMPQ AX, R13
	JLT columns
	CMPQ tileArgs_last(DI), $0
	JEQ save
	FOLD(Z0, Z1, Z2, Z3, Z16, Z17)
	FOLD(Z4, Z5, Z6, Z7, Z18, Z19)
	FOLD(Z8, Z9, Z10, Z11, Z20, Z21)
	FOLD(Z12, Z13, Z14, Z15, Z22, Z23)
	VUNPCKLPD Z4, Z0, Z1
	VUNPCKHPD Z4, Z0, Z2
	VADDPS Z2, Z1, Z1
	VUNPCKLPD Z12, Z8, Z3
	VUNPCKHPD Z12, Z8, Z5
	VADDPS Z5, Z3, Z3
	VSHUFPS $0x88, Z3, Z1, Z0
	VSHUFPS $0xdd, Z3, Z1, Z2
	VADDPS Z2, Z0, Z0
	LEAQ (R14)(R15*2), AX
	VMOVUPS X0, (R14)
	VEXTRACTF32X4 $1, Z0, (R14)(R15*1)
	VEXTRACTF32X4 $2, Z0, (AX)
	VEXTRACTF32X4 $3, Z0, (AX)(R15*1)
	JMP next
save:
	VMOVUPS Z0, (DX)
	VMOVUPS Z1, 64(DX)
	VMOVUPS Z2, 128(DX)
	VMOVUPS Z3, 192(DX)
	VMOVUPS Z4, 256(DX)
	VMOVUPS Z5, 320(DX)
	VMOVUPS Z6, 384(DX)
	VMOVUPS Z7, 448(DX)
	VMOVUPS Z8, 512(DX)
	VMOVUPS Z9, 576(DX)
	VMOVUPS Z10, 640(DX)
	VMOVUPS Z11, 704(DX)
	VMOVUPS Z12, 768(DX)
	VMOVUPS Z13, 832(DX)
	VMOVUPS Z14, 896(DX)
	VMOVUPS Z15, 960(DX)
next:
	LEAQ (R14)(R15*4), R14
	ADDQ $1024, DX
	ADDQ $32, SI
	SUBQ $4, CX
	CMPQ CX, $1
	JGT four
	JLT done
one:
	MOVQ (SI), R9
	ADDQ BX, R9
	CMPQ tileArgs_first(DI), $0
	JEQ load1
	CLEAR4(Z0, Z1, Z2, Z3)
	JMP start1
load1:
	VMOVUPS (DX), Z0
	VMOVUPS 64(DX), Z1
	VMOVUPS 128(DX), Z2
	VMOVUPS 192(DX), Z3
start1:
	XORQ AX, AX
columns1:
	VMOVUPS (R9)(AX*1), Z20
	VFMADD231PS (R8)(AX*4), Z20, Z0
	VFMADD231PS 64(R8)(AX*4), Z20, Z1
	VFMADD231PS 128(R8)(AX*4), Z20, Z2
	VFMADD231PS 192(R8)(AX*4), Z20, Z3
	ADDQ $64, AX
	CMPQ AX, R13
	JLT columns1
	CMPQ tileArgs_last(DI), $0
	JEQ save1
	FOLD(Z0, Z1, Z2, Z3, Z4, Z5)
	VPERMILPS $0x4e, Z0, Z4
	VADDPS Z4, Z0, Z0
	VPERMILPS $0xb1, Z0, Z4
	VADDPS Z4, Z0, Z0
	VCOMPRESSPS Z0, K1, Z0
	VMOVUPS X0, (R14)
	JMP done
save1:
	VMOVUPS Z0, (DX)
	VMOVUPS Z1, 64(DX)
	VMOVUPS Z2, 128(DX)
	VMOVUPS Z3, 192(DX)
done:
	VZEROUPPER
	RET

// func widenBF16AVX512(dst *float32, src *byte, n int)
//
// Whole vectors only.
TEXT ·widenBF16AVX512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	TESTQ CX, CX
	JLE done
loop:
	VPMOVZXWD (SI), Z0
	VPSLLD $16, Z0, Z0
	VMOVUPS Z0, (DI)
	ADDQ $32, SI
	ADDQ $64, DI
	SUBQ $16, CX
	JG loop
done:
	VZEROUPPER
	RET

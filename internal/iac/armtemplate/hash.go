package armtemplate

import (
	"encoding/base32"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
)

// uniqueString computes Resource Manager's function: 64 bits of MurmurHash3 (x86, two lanes) of the
// texts joined with "-", in base 32. It is not documented. People derived it from the public
// package Azure.Deployments.Expression. The tests contain values from Azure.
func uniqueString(texts ...string) string {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], murmur64([]byte(strings.Join(texts, "-"))))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:]))
}

func murmur64(data []byte) uint64 {
	const c1, c2 = 0x239b961b, 0xab0e9789
	var a, b uint32
	mixA := func(k uint32) { a ^= bits.RotateLeft32(k*c1, 15) * c2 }
	mixB := func(k uint32) { b ^= bits.RotateLeft32(k*c2, 17) * c1 }
	rest := data
	for ; len(rest) >= 8; rest = rest[8:] {
		mixA(binary.LittleEndian.Uint32(rest))
		a = (bits.RotateLeft32(a, 19)+b)*5 + 0x561ccd1b
		mixB(binary.LittleEndian.Uint32(rest[4:]))
		b = (bits.RotateLeft32(b, 13)+a)*5 + 0x0bcaa747
	}
	var tail [8]byte
	copy(tail[:], rest)
	mixA(binary.LittleEndian.Uint32(tail[:])) // without a tail this changes nothing
	mixB(binary.LittleEndian.Uint32(tail[4:]))
	a ^= uint32(len(data))
	b ^= uint32(len(data))
	a += b
	b += a
	a, b = scramble(a), scramble(b)
	a += b
	b += a
	return uint64(b)<<32 | uint64(a)
}

func scramble(h uint32) uint32 {
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// Hash identifies a template. Resource Manager shows such a number, but its algorithm is not known.
func Hash(template *Object) string { return strconv.FormatUint(murmur64(JSON(template)), 10) }

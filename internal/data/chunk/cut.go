package chunk

// The lengths of chunks in bytes. What is not longer than Min is one chunk.
const (
	Min = 512 << 10
	Max = 4 << 20
)

// The algorithm is FastCDC (W. Xia et al., "FastCDC: a Fast and Efficient
// Content-Defined Chunking Approach for Data Deduplication", USENIX ATC 2016): a
// gear hash, no cut before Min, and normalised chunking: a cut is rare up to
// usual and frequent from there on, which keeps most chunks between 1 and 2 MiB.
const (
	usual = 3 << 19 // 1.5 MiB
	// window is how many bytes a gear hash of 64 bits depends on.
	window = 64
	// A cut is where the hash is below these: with probability 2^-21 and 2^-18 a byte.
	rare     = 1 << (64 - 21)
	frequent = 1 << (64 - 18)
)

// gear gives each byte a random number. They are fixed: other ones would cut other
// chunks, and nothing stored before would be found again.
var gear = makeGear()

// makeGear is splitmix64 (G. Steele et al., OOPSLA 2014) from a fixed seed.
func makeGear() (table [256]uint64) {
	state := uint64(0x6d75737465720001)
	for i := range table {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		table[i] = z ^ z>>31
	}
	return table
}

// Cut is the length of the first chunk of data, which has Max bytes or more unless
// the file ends with it.
func Cut(data []byte) int {
	if len(data) <= Min {
		return len(data)
	}
	data = data[:min(len(data), Max)]
	var h uint64
	for _, b := range data[Min-window : Min] {
		h = h<<1 + gear[b]
	}
	middle := min(len(data), usual)
	at, h := scan(data[:middle], Min, h, rare)
	if h >= rare {
		at, _ = scan(data, at, h, frequent)
	}
	return at
}

// scan goes on at i until a hash is below the limit, and says where it stopped. A
// cut is behind the byte that made the hash.
func scan(data []byte, i int, h, limit uint64) (int, uint64) {
	for ; i+4 <= len(data); i += 4 {
		b := data[i : i+4 : i+4]
		if h = h<<1 + gear[b[0]]; h < limit {
			return i + 1, h
		}
		if h = h<<1 + gear[b[1]]; h < limit {
			return i + 2, h
		}
		if h = h<<1 + gear[b[2]]; h < limit {
			return i + 3, h
		}
		if h = h<<1 + gear[b[3]]; h < limit {
			return i + 4, h
		}
	}
	for ; i < len(data); i++ {
		if h = h<<1 + gear[data[i]]; h < limit {
			return i + 1, h
		}
	}
	return i, h
}

package footprint

import (
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/room"
)

const (
	// spareParts is the part of the disk that stays free: one in so many, and at most mostSpare bytes.
	spareParts = 20
	mostSpare  = 16 << 30
	// helps is the part of it, one in so many, that a pod has to have.
	helps = 4
)

// Short returns 0 unless the disk of a folder is short of space: pods have to be stopped before so little
// is left that only removal works. Then it is the least that the files of a pod need, in bytes, for its
// end to help: other programs may have filled the disk. A disk that cannot be measured is not short.
func Short(dir string) int64 {
	size, _, err := osfile.Space(dir)
	if err != nil {
		return 0
	}
	s, err := room.Look(dir)
	if err != nil {
		return 0
	}
	return short(size, s)
}

func short(size int64, s room.Space) int64 {
	spare, inodes := max(2*room.Low, min(size/spareParts, mostSpare)), int64(4*room.LowInodes)
	switch {
	case s.Inodes >= 0 && s.Inodes < inodes:
		return inodes / helps * fileBytes
	case s.Free < spare:
		return spare / helps
	}
	return 0
}

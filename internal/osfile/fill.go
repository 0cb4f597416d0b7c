package osfile

import "os"

// fillFile writes size bytes, which are not all zero: some file systems keep no zeros.
func fillFile(file *os.File, size int64) error {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i*31 + i>>8)
	}
	for size > 0 {
		n, err := file.Write(block[:min(size, int64(len(block)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return file.Sync()
}

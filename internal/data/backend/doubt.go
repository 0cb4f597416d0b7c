package backend

// Doubter is a backend that keeps copies of what is behind it.
type Doubter interface {
	// Doubt drops the copies of a range of an object, whose content turned out to be
	// wrong, and says whether there were any: then it is worth reading again.
	Doubt(key string, offset, length int64) bool
}

// Doubt tells a backend that what it gave was wrong, and says whether it is worth
// reading again.
func Doubt(b Backend, key string, offset, length int64) bool {
	d, ok := b.(Doubter)
	return ok && d.Doubt(key, offset, length)
}

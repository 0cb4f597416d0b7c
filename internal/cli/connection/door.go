package connection

// AsksDoor reports whether a command asks the door for answers that it would else read
// itself, from the files of a home or of the machine: the Muster is of the machine and not the
// caller's own.
func (f *Factory) AsksDoor() bool {
	origin, err := f.find()
	return err == nil && origin.kind == Box // else the command reports the error
}

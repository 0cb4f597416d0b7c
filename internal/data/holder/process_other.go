//go:build !linux

package holder

func machine() (boot, space string) { return "", "" }

func started(int) (ticks string, known bool) { return "", false }

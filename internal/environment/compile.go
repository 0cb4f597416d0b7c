//go:build linux

package environment

import (
	"context"
	"path/filepath"
	"runtime"
	"strconv"
)

// maxCompilers is how many compile at most: beyond that the disk is what they
// wait for.
const maxCompilers = 8

// compile has Python compile the packages, which the installer would do with one
// processor. What cannot be compiled, such as a package's examples of another
// Python, or all of it, is compiled when it is imported.
func (b *build) compile(ctx context.Context) error {
	b.say("compiling the packages")
	several := strconv.Itoa(min(runtime.GOMAXPROCS(0), maxCompilers))
	_ = b.command(ctx, func(string) {}, filepath.Join(b.path(), "bin", "python"), "-m", "compileall", "-qq", "-j", several, filepath.Join(b.path(), "lib"))
	return ctx.Err()
}

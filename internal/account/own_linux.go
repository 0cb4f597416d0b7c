package account

import (
	"context"
	"os"
)

// Own returns the account of the calling process; false where none is known. It reads
// the file passwd first, which costs less than a getent.
func (d *Directory) Own(ctx context.Context) (Account, bool) {
	uid := uint32(os.Getuid())
	if found, known := d.local(uid); known {
		return found, true
	}
	found, known, err := d.ByUID(ctx, uid)
	return found, known && err == nil
}

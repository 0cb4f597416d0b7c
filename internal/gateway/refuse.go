package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/versity/versitygw/s3err"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/turns"
)

// refusal is an answer in words, with one of S3's codes.
func refusal(code string, status int, format string, args ...any) error {
	return s3err.APIError{Code: code, HTTPStatusCode: status, Description: fmt.Sprintf(format, args...)}
}

// slowDown is what those are told who have to come again.
func slowDown(busy *turns.Busy) error { return refusal("SlowDown", 503, "%s", busy.Text) }

// unkept refuses what a request wants kept with an object that has no place for it.
func unkept(what string) error {
	return refusal("NotImplemented", 501, "%s is not kept: a dataset has paths, contents and whether a file is executable", what)
}

var (
	errNoKey      = s3err.GetAPIError(s3err.ErrNoSuchKey)
	errNoVersions = refusal("NotImplemented", 501, "objects have no versions of their own: the first part of a key names the branch, tag or commit")
)

// explain is an error as a client is told it: words of S3 as they are, damage by
// name, everything else in the log.
func (g *Gateway) explain(err error) error {
	var corrupt *data.CorruptError
	var api s3err.S3Error
	var busy *turns.Busy
	switch {
	case err == nil:
		return nil
	case errors.As(err, &api):
		return api
	case errors.As(err, &busy):
		return slowDown(busy)
	case errors.Is(err, ErrBusy):
		return refusal("SlowDown", 503, "%s", err)
	case errors.Is(err, ErrNoDataset):
		return s3err.GetAPIError(s3err.ErrNoSuchBucket)
	case errors.As(err, &corrupt):
		return refusal("InternalError", 500, "%s", corrupt.Error())
	case errors.Is(err, pack.ErrDamaged):
		return refusal("InternalError", 500, "%s", err)
	case errors.Is(err, fs.ErrNotExist):
		return errNoKey
	case errors.Is(err, tree.ErrWinding):
		return refusal("InvalidRequest", 400, "%s", err)
	case errors.Is(err, warehouse.ErrQuota):
		return refusal("QuotaExceeded", 403, "%s", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return refusal("StorageFull", 507, "%s", err)
	}
	g.o.Log.Warn("serving an S3 client", "err", err)
	return refusal("InternalError", 500, "%s", err)
}

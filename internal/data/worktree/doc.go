// Package worktree owns the folder on a machine that a checkout writes: files and symbolic links
// come into that folder, and nothing outside of it is read, written or removed.
//
// Vocabulary:
//
//   - A [Worktree] is the folder. Paths are relative to it, with slashes. No operation follows a
//     symbolic link in it: a link, pipe, socket or device in the place of a folder is removed.
//   - A worktree is fresh if nothing was in the folder when it was opened.
//   - A [Partial] is a file that is being written under a temporary name beside its own.
//
// It must not know datasets, commits or where contents are stored.
package worktree

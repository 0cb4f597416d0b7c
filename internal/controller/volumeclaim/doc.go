// Package volumeclaim serves claims of the built-in StorageClass: a pending
// claim becomes a folder and a hostPath PersistentVolume made for it, and a
// volume that is released becomes nothing again.
//
// Vocabulary: a claim is a PersistentVolumeClaim, a volume a PersistentVolume,
// and a folder what the volume points to: <dir>/<namespace>/<claim>-<uid>.
//
// Binding the two is the upstream binder's work; the volume names its claim,
// UID included, so that the binder has nothing to choose. What must always
// hold: no folder is removed while a claim may use it, and nothing outside
// <dir> is ever touched, whatever a volume says and whatever symbolic links
// somebody leaves.
package volumeclaim

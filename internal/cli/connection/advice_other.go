//go:build !linux

package connection

// startOne is the advice where no Muster is running.
const startOne = "Muster itself runs on Linux; name one elsewhere with --kubeconfig FILE"

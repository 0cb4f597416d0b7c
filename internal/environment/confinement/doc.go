// Package confinement runs the programs of builds of environments: installers,
// which run code of the user who asked for the environment.
//
// Vocabulary:
//
//   - A program runs under a shim, as a container of a job does (package
//     process): all its processes have ended when [Confinement.Run] returns, and
//     they end with the muster that started the program.
//   - Confined programs run in namespaces of their own, as a user of their own,
//     without rights, and see the machine's files for reading. They write to the
//     folders of the build alone. They do not see Muster's own folder, the home
//     folder of the user who runs Muster, and the machine's temporary folders.
//   - Where the machine does not let Muster confine them, programs run as all of
//     the plain tier do: as the user who runs Muster.
//
// It must not know environments, nor the purpose of the programs.
package confinement

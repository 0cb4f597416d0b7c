# SIGTERM for the processes of this container that its first process does not
# pass it on to: the descendants of shells, and of programs without a handler.
# It returns once they have ended; the kubelet bounds that by the grace period.
read -r own </proc/self/cgroup
seen=" $$ " over=' ' asked='' more=1
while [ "$more" ]; do
more=
for d in /proc/[0-9]*; do
q=${d#/proc/} n='' p='' c='' g=''
case $seen in *" $q "*) continue;; esac
{ while read -r k v _; do case $k in Name:) n=$v;; PPid:) p=$v;; SigCgt:) c=$v;; esac; done <"$d/status"; read -r g <"$d/cgroup"; } 2>/dev/null
[ "$g" = "$own" ] || continue
case $over in *" $p "*) kill -TERM "$q"; asked="$asked $q";; *) [ "$p" = 0 ] || continue;; esac
seen="$seen$q " more=1
case $n in sh|ash|bash|dash|ksh|zsh|busybox) ;; *) case $c in *[4-7c-f]???) continue;; esac;; esac
over="$over$q "
done
done
for q in $asked; do while kill -0 "$q"; do sleep 0.2 || sleep 1; done; done 2>/dev/null

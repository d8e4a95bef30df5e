"""How a matrix is cut: along which axes of which mesh its rows lie on the devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, Sharding


class Cut(NamedTuple):
    """The rows of a matrix are cut along `axes` of `mesh`, in that order.

    Without a mesh: the caller is inside of a shard_map, whose axes they are; the devices along
    `others` each have a matrix of their own. With `columns` the columns are cut instead, which
    concerns the matrix alone: everything that is made of it has its rows cut.
    """

    mesh: Mesh | AbstractMesh | None
    axes: tuple[str, ...]
    others: tuple[str, ...] = ()
    columns: bool = False

    @property
    def by_rows(self) -> Cut:
        """The same devices in the same order, with rows."""
        return self._replace(columns=False)

    @property
    def explicit(self) -> bool:
        """Whether shardings are part of the types on this mesh."""
        return self.mesh is not None and _is_explicit(self.mesh)

    @property
    def explicit_axes(self) -> tuple[str, ...]:
        """Those of `axes` along which types say where arrays lie."""
        return tuple(axis for axis in self.axes if axis in _explicit_axes(self.known_mesh))

    @property
    def inside(self) -> bool:
        """Whether the caller is inside of a shard_map, and arrays are a device's own rows."""
        return self.mesh is None

    @property
    def known_mesh(self) -> Mesh | AbstractMesh:
        """The mesh; not inside of a shard_map."""
        assert self.mesh is not None
        return self.mesh

    def place(self, a: jax.Array, axis: int | None = 0) -> jax.Array:
        """`a` cut along its rows or another axis, or whole, where types say where arrays lie.

        Elsewhere XLA sees to that, as it does to axes that are not Explicit beside some that are.
        What does not divide evenly stays whole, and so does an array without rows; on no mesh it
        stays there, as no shard_map brings one in if n = 0.
        """
        if not self.explicit or (a.shape[0] == 0 and jax.typeof(a).sharding.mesh.empty):
            return a
        axes = self.explicit_axes
        parts = math.prod(self.known_mesh.shape[one] for one in axes)
        even = axis is not None and a.shape[axis] > 0 and a.shape[axis] % parts == 0
        spec = spec_along(axes, axis if even and axes else None, a.ndim)
        return jax.sharding.reshard(a, NamedSharding(self.known_mesh, spec))

    def whole(self, a: jax.Array, length: int, axis: int = 0) -> jax.Array:
        """The first rows of `a`, or along another axis, on every device; XLA would choose."""
        if self.explicit:
            return jax.lax.slice_in_dim(self.place(a, None), 0, length, axis=axis)
        everywhere = NamedSharding(self.known_mesh, PartitionSpec())
        kept = jax.lax.slice_in_dim(a, 0, length, axis=axis)
        return jax.lax.with_sharding_constraint(kept, everywhere)

    def spec(self, axis: int | None, ndim: int) -> PartitionSpec:
        """Of an array that is cut along one axis, or lies whole on every device."""
        return spec_along(self.axes, axis, ndim)

    def place_like(self, a: jax.Array, other: jax.Array) -> jax.Array:
        """`a` where `other` of the same shape lies, likewise."""
        sharding = jax.typeof(other).sharding
        known = self.explicit and not sharding.mesh.empty
        return jax.sharding.reshard(a, sharding) if known else a

    def indices(self) -> tuple[jax.Array, ...]:
        """For each axis of the mesh the indices along it, cut along it: each device has its own.

        As operands of a shard_map: where a program uses another mesh outside of it, JAX (0.12) does
        not know the axes of this one when it lowers `axis_index`.
        """
        mesh = self.known_mesh
        found = []
        for axis, kind in zip(mesh.axis_names, mesh.axis_types, strict=True):
            index = jnp.arange(mesh.shape[axis], dtype=jnp.int32)
            if kind == AxisType.Explicit:
                index = jax.sharding.reshard(index, NamedSharding(mesh, PartitionSpec(axis)))
            found.append(index)
        return tuple(found)

    def number(self, axes: tuple[str, ...], indices: Sequence[jax.Array]) -> jax.Array:
        """A device's number among those along some axes, of its own indices along all of them."""
        mesh, number = self.known_mesh, jnp.int32(0)
        for axis in axes:
            number = number * mesh.shape[axis] + indices[mesh.axis_names.index(axis)][0]
        return number

    @property
    def parts(self) -> int:
        """Into how many parts the rows are cut; not inside of a shard_map."""
        return math.prod(self.known_mesh.shape[axis] for axis in self.axes)


def place_like(a: jax.Array, other: jax.Array) -> jax.Array:
    """`a` where `other` of the same shape lies, where types say where arrays lie.

    What has been made without a mesh lies whole everywhere.
    """
    sharding = jax.typeof(other).sharding
    if not _is_explicit(sharding.mesh):
        return place_whole(a)
    own = other.sharding if _is_put(other) else None
    if own is not None and not isinstance(a, jax.core.Tracer):
        return jax.device_put(a, own)
    mesh = own.mesh if isinstance(own, NamedSharding) else sharding.mesh
    return jax.sharding.reshard(a, NamedSharding(mesh, sharding.spec))


def place_whole(a: jax.Array) -> jax.Array:
    """`a` whole on every device, likewise."""
    sharding = jax.typeof(a).sharding
    if not _is_explicit(sharding.mesh):
        return a
    own = a.sharding if _is_put(a) else None
    mesh = own.mesh if isinstance(own, NamedSharding) else sharding.mesh
    return jax.sharding.reshard(a, NamedSharding(mesh, PartitionSpec()))


def spec_along(axes: tuple[str, ...], axis: int | None, ndim: int) -> PartitionSpec:
    """Of an array whose `axis` is cut along the axes of a mesh; None: whole on every device."""
    if axis is None:
        return PartitionSpec()
    return PartitionSpec(*(axes if at == axis else None for at in range(ndim)))


def axes_of(entry: str | Sequence[str] | None) -> tuple[str, ...]:
    """One entry of a PartitionSpec as a tuple of axis names."""
    if entry is None or entry is PartitionSpec.UNCONSTRAINED:
        return ()
    return (entry,) if isinstance(entry, str) else tuple(entry)


def row_axes(spec: PartitionSpec, mesh: Mesh | AbstractMesh, rows: int) -> tuple[str, ...]:
    """Axes to cut the rows along: those that cut the matrix, rows first; all of the mesh if none.

    So a matrix whose rows are cut is used where it lies, and a replicated one by everybody. Also
    one whose rows these axes would cut unevenly: what is made of it lies whole on every device.
    On a mesh with Explicit axes only these count, as the others are not known inside of jit.
    """
    used = tuple(axis for entry in spec for axis in axes_of(entry))
    even = used and rows % math.prod(mesh.shape[axis] for axis in used) == 0
    if even or not _is_explicit(mesh):
        return used if even else tuple(mesh.axis_names)
    return _explicit_axes(mesh)


def cuts_columns(spec: PartitionSpec) -> bool:
    """Whether each device has whole columns of a matrix, and not all of them."""
    rows, columns = (*spec, None, None)[:2]
    return not axes_of(rows) and bool(axes_of(columns))


def find_cut(
    a: jax.Array,
    mesh: Mesh | AbstractMesh | None,
    axis_name: str | Sequence[str] | None,
    b: jax.Array | None = None,
    square: bool = True,
) -> Cut | None:
    """How to cut a matrix, or what is made of one, by what is known of it; None: XLA decides.

    A matrix that was never put anywhere follows right-hand sides that were.

    Args:
        a: Two-dimensional, or with leading batch dimensions.
        mesh: The user's wish, or None.
        axis_name: Axes of the shard_map around the call, or None: all of them, if it is cut.
        b: Right-hand sides, if there are any.
        square: Whether the matrix is n x n: else its shape does not say, inside of a shard_map,
            whether it is cut.
    """
    _require_kinds(mesh, axis_name)
    around = manual_axes()
    if axis_name is not None or around:
        _require_no_mesh(mesh, around)
        require_unchecked(a)
        if b is not None:
            require_unchecked(b)
        if not square:
            return _named_cut(around, axes_of(axis_name))
        return _cut_inside(a.shape[-2:], around, axes_of(axis_name) or around)
    if isinstance(mesh, AbstractMesh):
        _require_known_devices(mesh, (a,) if b is None else (a, b))
    return _cut_outside(a, mesh, b)


def _cut_outside(a: jax.Array, mesh: Mesh | AbstractMesh | None, b: jax.Array | None) -> Cut | None:
    """How to cut a matrix where no shard_map is around the caller."""
    typed = jax.typeof(a).sharding
    explicit = _is_explicit(typed.mesh)
    if mesh is None and b is not None and _may_follow(a):
        mesh = _mesh_to_follow(b)
        if mesh is None and isinstance(b, jax.core.Tracer):
            return None  # XLA brings such a matrix to wherever b lies
    if isinstance(a, jax.core.Tracer):
        if mesh is None and not explicit:
            return None  # under Auto axes the type's spec says nothing, whatever the sharding is
        spec, chosen = typed.spec, mesh or typed.mesh
    elif isinstance(a.sharding, NamedSharding) and mesh in (None, a.sharding.mesh):
        spec, chosen = typed.spec if explicit else a.sharding.spec, a.sharding.mesh
    else:
        spec, chosen = PartitionSpec(), mesh or _mesh_of(a)
    if explicit:
        _require_axes(typed, chosen)
    _require_devices(a, "the matrix or factor", chosen)
    if b is not None:
        _require_devices(b, "b", chosen)
    spec = _last_two(spec, a.ndim)
    return Cut(chosen, row_axes(spec, chosen, a.shape[-2]), columns=cuts_columns(spec))


def _require_kinds(mesh: object, axis_name: object) -> None:
    if mesh is not None and not isinstance(mesh, Mesh | AbstractMesh):
        raise TypeError(
            f"mesh is a {type(mesh).__name__}; pass a jax.sharding.Mesh, as jax.make_mesh makes it"
        )
    if not _names_axes(axis_name):
        raise TypeError(
            f"axis_name is {axis_name!r}; pass the name of an axis, or a tuple of names"
        )


def _names_axes(axis_name: object) -> bool:
    if axis_name is None or isinstance(axis_name, str):
        return True
    return isinstance(axis_name, Sequence) and all(isinstance(axis, str) for axis in axis_name)


def _explicit_axes(mesh: Mesh | AbstractMesh) -> tuple[str, ...]:
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return tuple(axis for axis, kind in kinds if kind == AxisType.Explicit)


def _is_explicit(mesh: Mesh | AbstractMesh) -> bool:
    return bool(_explicit_axes(mesh))


def beside(arrays: Sequence[jax.Array], cut: Cut | None, value: Any, dtype: np.dtype) -> jax.Array:
    """`value` as an array, whole on every device of `cut`, or on that of the first of `arrays`.

    Put there explicitly, but where JAX traces: jax.transfer_guard refuses what moves unsaid.
    """
    if any(isinstance(one, jax.core.Tracer) for one in (value, *arrays)):
        return jnp.asarray(value, dtype)
    given = jnp.asarray(value, dtype) if isinstance(value, jax.Array) else np.asarray(value, dtype)
    where: Sharding | None = arrays[0].sharding if _is_put(arrays[0]) else None
    if cut is not None and isinstance(cut.mesh, Mesh):
        where = NamedSharding(cut.mesh, PartitionSpec())
    elif isinstance(where, NamedSharding):
        where = NamedSharding(where.mesh, PartitionSpec())
    return jax.device_put(given, where)


def _is_put(a: jax.Array) -> bool:
    """Whether somebody has said where an array lies, and it is known here."""
    return not isinstance(a, jax.core.Tracer) and a.committed


def _may_follow(a: jax.Array) -> bool:
    if not jax.sharding.get_abstract_mesh().empty:
        return False  # the mesh that is set says where
    return not _is_put(a) and not _is_explicit(jax.typeof(a).sharding.mesh)


def _mesh_to_follow(b: jax.Array) -> Mesh | AbstractMesh | None:
    typed = jax.typeof(b).sharding.mesh
    if isinstance(b, jax.core.Tracer):
        return typed if _is_explicit(typed) else None
    if not _is_put(b):
        return None
    return b.sharding.mesh if isinstance(b.sharding, NamedSharding) else _mesh_of(b)


def _require_no_mesh(mesh: Mesh | AbstractMesh | None, around: tuple[str, ...]) -> None:
    """Throws if a mesh is given where the devices are those of the shard_map around the call."""
    if mesh is not None and around:
        raise ValueError(
            f"mesh= was given inside of a shard_map along {around!r}, whose devices do the work: "
            "leave mesh= out, and pass in axis_name the axes along which the rows are cut; or "
            "call outside of the shard_map"
        )


def _require_known_devices(mesh: AbstractMesh, arrays: Sequence[jax.Array]) -> None:
    """Throws if neither the arrays nor a mesh that is set say which devices a mesh stands for."""
    if not jax.sharding.get_abstract_mesh().empty:
        return
    for array in arrays:
        if isinstance(array, jax.core.Tracer):
            return  # XLA will know
        if isinstance(array.sharding, NamedSharding) and array.sharding.mesh.shape == mesh.shape:
            return
    raise ValueError(
        "mesh is an AbstractMesh, which has no devices, and neither do the arrays lie on such a "
        "mesh nor is one set: pass the jax.sharding.Mesh itself, as jax.make_mesh makes it, or "
        "set it around the call with jax.set_mesh(mesh)"
    )


def _require_devices(a: jax.Array, name: str, mesh: Mesh | AbstractMesh) -> None:
    """Throws if an array that was put on devices is to be used on others."""
    if not _is_put(a) or isinstance(mesh, AbstractMesh):
        return
    given, used = a.sharding.device_set, set(mesh.devices.flat)
    if given != used:
        raise ValueError(
            f"{name} was put on the devices {sorted(map(_id, given))}, and the call would run on "
            f"the devices {sorted(map(_id, used))}: those of mesh= if it is passed, else of the "
            "matrix or factor. Move one with jax.device_put; a factor is made where it will be "
            "used by cho_factor(a, mesh=...)"
        )
    if isinstance(a.sharding, NamedSharding):
        order, wanted = ([_id(one) for one in m.devices.flat] for m in (a.sharding.mesh, mesh))
        if order != wanted:
            raise ValueError(
                f"{name} lies on a mesh of the devices {order}, in this order, and the call would "
                f"run on a mesh of {wanted}, which JAX does not mix: move one with jax.device_put"
            )


def _mesh_of(a: jax.Array) -> Mesh | AbstractMesh:
    """Of an array whose sharding has none: the mesh that is set, or one of the array's devices."""
    context = jax.sharding.get_abstract_mesh()
    if not context.empty:
        return context
    return Mesh(np.array(sorted(a.sharding.device_set, key=_id)), ("devices",))


def _require_axes(typed: NamedSharding, mesh: Mesh | AbstractMesh) -> None:
    """Throws if an array is cut by its type along axes that the mesh to be used has not."""
    missing = [
        axis for entry in typed.spec for axis in axes_of(entry) if axis not in mesh.axis_names
    ]
    if missing:
        raise ValueError(
            f"the matrix or factor is cut along {tuple(missing)!r} by its type, on a mesh of "
            f"Explicit axes, and is to be used on a mesh with the axes {tuple(mesh.axis_names)!r}. "
            "A factor is used where it was made. A matrix is moved with jax.device_put(a, "
            "NamedSharding(mesh, PartitionSpec())), or jax.sharding.reshard inside jit: put on a "
            "bare device it keeps the type that it had"
        )


def _id(device: jax.Device) -> int:
    return device.id


def inside_shard_map() -> bool:
    """Whether the caller is traced inside of a shard_map."""
    return bool(manual_axes())


def manual_axes() -> tuple[str, ...]:
    """The axes of the shard_map around the caller; empty outside of one."""
    mesh = jax.sharding.get_abstract_mesh()
    return tuple(
        axis
        for axis, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if kind == AxisType.Manual
    )


def varies(a: jax.Array) -> bool:
    """Whether `a` differs between devices of the shard_map around, if that checks it."""
    kind = jax.typeof(a)  # no common name: vma in jax 0.8, mat.varying in 0.10
    return bool(getattr(kind, "vma", None) or getattr(getattr(kind, "mat", None), "varying", None))


def require_unchecked(a: jax.Array) -> None:
    """Throws inside of a shard_map with check_vma=True, if `a` differs between its devices.

    JAX 0.8 would count all that comes out of a call as varying, and 0.10 nothing, so that rows of
    a result would pass as replicated and their gradients be summed.
    """
    if varies(a):
        raise ValueError(
            "the shard_map around this call checks along which axes values vary, which "
            "shardsolve's calls cannot declare in all versions of JAX: pass check_vma=False to it"
        )


def _named_cut(around: tuple[str, ...], axes: tuple[str, ...]) -> Cut:
    """Of a device's own rows, along axes that are named."""
    missing = [axis for axis in axes if axis not in around]
    if missing:
        raise ValueError(
            f"axis_name is {axes!r}, but the axes of the shard_map around this call are "
            f"{around!r}; leave axis_name out outside of shard_map"
        )
    return Cut(None, axes, tuple(axis for axis in around if axis not in axes))


def _cut_inside(shape: tuple[int, ...], around: tuple[str, ...], axes: tuple[str, ...]) -> Cut:
    _named_cut(around, axes)
    rows, n = shape
    if rows == n:
        axes = ()  # every device has a whole matrix
    else:
        sizes = jax.sharding.get_abstract_mesh().shape
        if rows * math.prod(sizes[axis] for axis in axes) != n:
            raise ValueError(
                f"inside of shard_map, a device has {rows} rows of {n} and the axes {axes!r} have "
                f"{math.prod(sizes[axis] for axis in axes)} devices: pass rows that are cut "
                "evenly, and in axis_name the axes that they are cut along"
            )
    return _named_cut(around, axes)


def _last_two(spec: PartitionSpec, ndim: int) -> PartitionSpec:
    entries = tuple(spec) + (None,) * (ndim - len(spec))
    return PartitionSpec(*entries[-2:])

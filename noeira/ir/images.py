"""What ops about images have in common: which operands and results are images, channels last where
kernels see them, and which are weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from noeira.ir.op import Op
from noeira.ir.orders import IMAGES, WEIGHTS, canonical, stored
from noeira.ir.types import TensorType, Types


class ImageOp(Op):
    """An op whose attribute `channels_last` says whether the axes of its images are [N, *S, C], and
    of its weights [*K, C, F], else [N, C, *S] and [F, C, *K]. Its kernels are written for the
    first: in the second, images and weights lie so in memory all the same, and results say it.

    images, weights: the operands and results, by name, that are such; others are row major.
    """

    images: ClassVar[tuple[str, ...]] = ("x",)
    weights: ClassVar[tuple[str, ...]] = ()
    results_images: ClassVar[tuple[str, ...]] = ("",)
    results_weights: ClassVar[tuple[str, ...]] = ()

    def order_of(self, name: str, type: TensorType, images: Any, weights: Any) -> str:
        """The order in which memory has what is called so; "" is row major, as it is."""
        rank = len(type.shape)
        if name in images:
            return IMAGES.get(rank, "")
        return WEIGHTS.get(rank, "") if name in weights else ""

    def orders_of(
        self, names: tuple[str, ...], types: Types, images: Any, weights: Any
    ) -> tuple[str, ...]:
        """The orders in which memory has operands or results."""
        pairs = zip(names, types, strict=True)
        return tuple(self.order_of(name, type, images, weights) for name, type in pairs)

    def orders(self, attrs: Any, operands: Types, results: Types) -> tuple[str, ...]:
        if attrs.channels_last:
            return ()
        return self.orders_of(
            self.given_results(attrs), results, self.results_images, self.results_weights
        )

    def kernel_orders(self, attrs: Any, operands: Types) -> tuple[str | None, ...]:
        if attrs.channels_last:
            return ("",) * len(operands)
        names = self.operand_names(attrs, len(operands))
        orders = self.orders_of(names, operands, self.images, self.weights)
        pairs = zip(operands, orders, strict=True)
        return tuple(canonical(type.shape, order) for type, order in pairs)

    def lies_otherwise(self, attrs: Any) -> bool:
        return not attrs.channels_last

    def laid(self, attrs: Any, operands: Types, results: Types) -> tuple[Any, Types, Types]:
        if attrs.channels_last:
            return attrs, operands, results
        names = self.operand_names(attrs, len(operands))
        read = self.orders_of(names, operands, self.images, self.weights)
        made = self.orders_of(
            self.given_results(attrs), results, self.results_images, self.results_weights
        )
        return (
            replace(attrs, channels_last=True),
            tuple(map(stored, operands, read)),
            tuple(map(stored, results, made)),
        )


class AlongAxes(Op):
    """The parent of ops that work along some axes in whatever order these lie: results lie as the
    first operand that has an order does.
    """

    def place(self, attrs: Any, order: str) -> Any:
        """The attributes for axes as they lie in an order."""
        raise NotImplementedError(self.name)

    def order_among(self, operands: Types) -> str:
        """The order in which all are taken."""
        return next((type.order for type in operands if type.order), "")

    def orders(self, attrs: Any, operands: Types, results: Types) -> tuple[str, ...]:
        order = self.order_among(operands)
        return tuple(canonical(type.shape, order) for type in results) if order else ()

    def kernel_orders(self, attrs: Any, operands: Types) -> tuple[str | None, ...]:
        order = self.order_among(operands)
        return tuple(canonical(type.shape, order) for type in operands)

    def laid(self, attrs: Any, operands: Types, results: Types) -> tuple[Any, Types, Types]:
        order = self.order_among(operands)
        if not order:
            return attrs, operands, results
        lie = (tuple(stored(type, order) for type in side) for side in (operands, results))
        return (self.place(attrs, order), *lie)  # type: ignore[return-value]

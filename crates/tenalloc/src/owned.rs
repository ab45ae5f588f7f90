//! A value in an object of a group: `Box`, with an owner who pays.
//!
//! No allocator in its type and no global one beneath it: the object's address says where it belongs. It outlives its
//! group, as every object does.

use crate::controller::Controller;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::slab::Cache;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::ptr::NonNull;

/// A value of type `T` in memory that a group owns and pays for. Dropped, on whatever thread, it drops the value and the
/// owner's group gets the bytes back.
///
/// ```
/// use tenalloc::{CacheConfig, Config, Controller, Owned};
/// # fn main() -> tenalloc::Result<()> {
/// let ctl = Controller::new(Config::new())?;
/// let tenant = ctl.root().create("tenant-7")?;
/// let mut page = Owned::new(&tenant, [0u8; 600])?; // from the size class that fits
/// page[0] = 1;
/// let pairs = ctl.cache(&CacheConfig::new("pair", size_of::<(u64, u64)>()))?;
/// let pair = pairs.owned(&tenant, (1u64, 2u64))?; // from a cache of its own
/// let name = Owned::str(&tenant, "as long as it is")?;
/// assert_eq!((page[0], pair.1, &*name), (1, 2, "as long as it is"));
/// assert_eq!(Owned::group(&pair), Some(tenant.clone()));
/// drop((page, pair, name));
/// assert_eq!(tenant.exact(), 0);
/// # Ok(())
/// # }
/// ```
pub struct Owned<T: ?Sized> {
    object: NonNull<T>,
    /// Keeps the memory in place.
    ctl: Controller,
    _value: PhantomData<T>,
}

// SAFETY: it has its value alone; objects are freed on any thread.
unsafe impl<T: ?Sized + Send> Send for Owned<T> {}
// SAFETY: through a shared reference there is only a shared reference to the value.
unsafe impl<T: ?Sized + Sync> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// Puts a value into an object of `group`, of the size class that fits. A value of no bytes takes the smallest.
    ///
    /// # Errors
    /// As [`Controller::malloc`]; the value is dropped then.
    pub fn new(group: &Group, value: T) -> Result<Self> {
        let object = group.controller().malloc(group, size_of::<T>().max(1), align_of::<T>())?;
        Ok(Self::put(group.controller(), object, value))
    }

    /// As [`new`](Self::new), pinned.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn pin(group: &Group, value: T) -> Result<Pin<Self>> {
        Self::new(group, value).map(Self::into_pin)
    }

    fn put(ctl: &Controller, object: NonNull<u8>, value: T) -> Self {
        let object = object.cast::<T>();
        // SAFETY: a new object, large and aligned enough.
        unsafe { object.write(value) };
        Self { object, ctl: ctl.clone(), _value: PhantomData }
    }

    /// The value, out of its object, which is freed.
    pub fn into_inner(this: Self) -> T {
        let (object, ctl) = Self::take_apart(this);
        // SAFETY: the value is read once, and the object then used by nobody.
        unsafe {
            let value = object.read();
            free(&ctl, object);
            value
        }
    }
}

impl<T: Copy> Owned<[T]> {
    /// A copy of a slice, in an object of `group`.
    ///
    /// # Errors
    /// As [`Controller::malloc`].
    pub fn slice(group: &Group, values: &[T]) -> Result<Self> {
        let object =
            group.controller().malloc(group, size_of_val(values).max(1), align_of::<T>())?.cast::<T>();
        // SAFETY: new, large and aligned enough, and elsewhere.
        unsafe { object.as_ptr().copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        let object = NonNull::slice_from_raw_parts(object, values.len());
        Ok(Self { object, ctl: group.controller().clone(), _value: PhantomData })
    }
}

impl Owned<str> {
    /// A copy of a string, in an object of `group`.
    ///
    /// # Errors
    /// As [`Controller::malloc`].
    pub fn str(group: &Group, text: &str) -> Result<Self> {
        let (bytes, ctl) = Owned::take_apart(Owned::slice(group, text.as_bytes())?);
        // SAFETY: not null; a string is laid out as its bytes are.
        let object = unsafe { NonNull::new_unchecked(bytes.as_ptr() as *mut str) };
        Ok(Self { object, ctl, _value: PhantomData })
    }
}

impl<T: ?Sized> Owned<T> {
    /// The same, pinned: the value never moves, as its object does not.
    pub fn into_pin(this: Self) -> Pin<Self> {
        // SAFETY: the value lies in the object, which stays where it is until it is dropped there.
        unsafe { Pin::new_unchecked(this) }
    }

    /// The value's object, to be freed by hand: with [`from_raw`](Self::from_raw), or by dropping the value in place and
    /// [`Controller::free`].
    pub fn into_raw(this: Self) -> NonNull<T> {
        Self::take_apart(this).0
    }

    /// What [`into_raw`](Self::into_raw) took apart.
    ///
    /// # Safety
    /// `object` is from `into_raw`, of this controller, and was not put together before.
    pub unsafe fn from_raw(ctl: &Controller, object: NonNull<T>) -> Self {
        Self { object, ctl: ctl.clone(), _value: PhantomData }
    }

    fn take_apart(this: Self) -> (NonNull<T>, Controller) {
        let this = core::mem::ManuallyDrop::new(this);
        // SAFETY: read once; `this` is not dropped.
        (this.object, unsafe { core::ptr::read(&this.ctl) })
    }

    /// The group that pays for it now; `None` if nobody does.
    pub fn group(this: &Self) -> Option<Group> {
        this.ctl.group_of_object(this.object.cast()).ok().flatten()
    }
}

impl Group {
    /// Puts a value into an object of this group: [`Owned::new`].
    ///
    /// # Errors
    /// As [`Controller::malloc`]; the value is dropped then.
    pub fn owned<T>(&self, value: T) -> Result<Owned<T>> {
        Owned::new(self, value)
    }
}

impl Cache {
    /// Puts a value into an object of this cache.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); [`Error::BadSize`] or [`Error::BadAlign`] if the cache's objects are too small or not
    /// aligned enough. The value is dropped then.
    pub fn owned<T>(&self, group: &Group, value: T) -> Result<Owned<T>> {
        if size_of::<T>() > self.record().usable() {
            return Err(Error::BadSize { size: size_of::<T>() });
        }
        let object = self.alloc(group)?;
        let owned = |object| Owned::put(self.controller(), object, value);
        if object.cast::<T>().is_aligned() {
            return Ok(owned(object));
        }
        // SAFETY: new, and used by nobody.
        unsafe { self.free(object)? };
        Err(Error::BadAlign { align: align_of::<T>() })
    }
}

/// # Safety
/// The object is live, and used by nobody.
unsafe fn free<T: ?Sized>(ctl: &Controller, object: NonNull<T>) {
    // SAFETY: the caller's promise. Were it wrong, or had somebody written beyond it, it is counted, and nobody is here
    // to be told.
    let _ = unsafe { ctl.free(object.cast()) };
}

impl<T: ?Sized> Drop for Owned<T> {
    fn drop(&mut self) {
        /// Frees the object also when the value's drop panics.
        struct Free<'a, T: ?Sized>(&'a Controller, NonNull<T>);
        impl<T: ?Sized> Drop for Free<'_, T> {
            fn drop(&mut self) {
                // SAFETY: live until here, and the value is gone.
                unsafe { free(self.0, self.1) };
            }
        }
        let free = Free(&self.ctl, self.object);
        // SAFETY: the value is in place, and dropped here alone.
        unsafe { free.1.drop_in_place() };
    }
}

impl<T: ?Sized> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a live value, which only this reaches.
        unsafe { self.object.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.object.as_mut() }
    }
}

// The value does not move with the handle.
impl<T: ?Sized> Unpin for Owned<T> {}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

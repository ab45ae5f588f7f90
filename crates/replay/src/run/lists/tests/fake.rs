//! A design that only writes down what it is asked, so that every call of a run can be compared.

use std::cell::RefCell;
use std::rc::Rc;

use tenalloc_designs::lists::{ItemKey, ListDesign, ListError, ListUsage, LruKey, Made, ShrinkerKey};
use tenalloc_designs::{Error, GroupKey};

/// Keys are numbers from 0 in the order of calls.
#[derive(Default)]
pub(super) struct Fake {
    /// One line a call; shared, because a run owns its design.
    pub(super) calls: Rc<RefCell<Vec<String>>>,
    groups: u32,
    shrinkers: u32,
    lrus: u32,
    items: u32,
    full: bool,
}

impl Fake {
    /// One that refuses every use of a list.
    pub(super) fn full() -> Self {
        Self { full: true, ..Self::default() }
    }

    fn call(&self, text: String) {
        self.calls.borrow_mut().push(text);
    }
}

/// The number before one more.
fn next(of: &mut u32) -> u32 {
    *of += 1;
    *of - 1
}

fn name(group: Option<GroupKey>) -> String {
    group.map_or("root".into(), |group| format!("g{}", group.0))
}

impl ListDesign for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn summary(&self) -> &'static str {
        "Nothing is kept."
    }

    fn add_group(&mut self, parent: Option<GroupKey>) -> Result<GroupKey, ListError> {
        let key = GroupKey(next(&mut self.groups));
        self.call(format!("{} below {}", name(Some(key)), name(parent)));
        Ok(key)
    }

    fn remove_group(&mut self, group: GroupKey) -> Result<(), ListError> {
        self.call(format!("remove {}", name(Some(group))));
        Ok(())
    }

    fn add_shrinker(&mut self) -> Result<ShrinkerKey, ListError> {
        let key = ShrinkerKey(next(&mut self.shrinkers));
        self.call(format!("shrinker {}", key.0));
        Ok(key)
    }

    fn remove_shrinker(&mut self, shrinker: ShrinkerKey) -> Result<(), ListError> {
        self.call(format!("remove shrinker {}", shrinker.0));
        Ok(())
    }

    fn add_lru(&mut self, shrinker: ShrinkerKey) -> Result<LruKey, ListError> {
        let key = LruKey(next(&mut self.lrus));
        self.call(format!("list {} of shrinker {}", key.0, shrinker.0));
        Ok(key)
    }

    fn remove_lru(&mut self, lru: LruKey) -> Result<(), ListError> {
        self.call(format!("remove list {}", lru.0));
        Ok(())
    }

    fn prepare(&mut self, lru: LruKey, group: Option<GroupKey>) -> Result<(), ListError> {
        if self.full {
            return Err(Error::TooMany("lists").into());
        }
        self.call(format!("prepare list {} for {}", lru.0, name(group)));
        Ok(())
    }

    fn add(&mut self, lru: LruKey, group: Option<GroupKey>, node: u8) -> Result<ItemKey, ListError> {
        let key = ItemKey(next(&mut self.items));
        self.call(format!("item {} on list {} of {} on node {node}", key.0, lru.0, name(group)));
        Ok(key)
    }

    fn del(&mut self, item: ItemKey) -> Result<(), ListError> {
        self.call(format!("delete item {}", item.0));
        Ok(())
    }

    fn count(&self, _: LruKey, _: Option<GroupKey>, _: u8) -> u64 {
        0
    }

    fn walk(&self, _: LruKey, _: Option<GroupKey>, _: u8, _: &mut dyn FnMut(ItemKey)) {}

    fn heads(&self) -> u64 {
        0
    }

    fn usage(&self) -> ListUsage {
        ListUsage::default()
    }

    fn made(&self) -> Vec<Made> {
        Vec::new()
    }
}
